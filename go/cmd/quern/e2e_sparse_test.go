package main

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// TestSparse makes sparse vectors: "quern embed" prints the numbers that are not 0 with the ids of their tokens, the server
// sends the same, and documents are scored by products.
func TestSparse(t *testing.T) {
	path := classifier(t, "bert", map[string]any{"quern.pooling": "splade_max", "quern.classifier.pooling": "tokens"},
		make([]string, 64), "cls.weight", "cls.bias", "cls.norm.weight")
	printed := func(args ...string) (all []map[int]float64) {
		for line := range strings.Lines(succeed(t, append([]string{"embed", "-m", path, "the dog", "a girl"}, args...)...)) {
			vector := map[int]float64{}
			for _, pair := range strings.Fields(line) {
				id, x, ok := strings.Cut(pair, ":")
				if !ok {
					t.Fatalf("%q, want an id and a number", pair)
				}
				n, err := strconv.Atoi(id)
				value, err2 := strconv.ParseFloat(x, 64)
				if err != nil || err2 != nil || value <= 0 {
					t.Fatalf("%q, want an id and a number", pair)
				}
				vector[n] = value
			}
			all = append(all, vector)
		}
		return all
	}
	product := func(a, b map[int]float64) (sum float64) {
		for id, x := range a {
			sum += x * b[id]
		}
		return sum
	}
	all := printed()
	if len(all) != 2 || len(all[0]) == 0 {
		t.Fatalf("%d vectors", len(all))
	}
	if unit := printed("--embd-normalize", "2")[0]; math.Abs(product(unit, unit)-1) > 1e-5 || len(unit) != len(all[0]) {
		t.Errorf("length %g", math.Sqrt(product(unit, unit)))
	}
	s := serveFile(t, path)
	var sent [][]struct {
		Index int
		Value float64
	}
	s.posted("/embed_sparse", `{"inputs":["the dog","a girl"]}`, &sent)
	for i, want := range all {
		if len(sent[i]) != len(want) {
			t.Fatalf("%d numbers, want %d", len(sent[i]), len(want))
		}
		for _, x := range sent[i] {
			if math.Abs(x.Value-want[x.Index]) > 1e-6 {
				t.Errorf("token %d has %g, want %g", x.Index, x.Value, want[x.Index])
			}
		}
	}
	var dense struct {
		Data []struct{ Embedding []float64 }
	}
	s.posted("/v1/embeddings", `{"input":"the dog"}`, &dense)
	for id, x := range dense.Data[0].Embedding {
		if math.Abs(x-all[0][id]) > 1e-6 {
			t.Errorf("the whole vector has %g for token %d, want %g", x, id, all[0][id])
		}
	}
	want := product(all[0], all[1])
	for line := range strings.Lines(succeed(t, "rerank", "-m", path, "the dog", "a girl")) {
		score, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
		if err != nil || math.Abs(score-want) > 1e-3 {
			t.Errorf("%q, want %g", line, want)
		}
	}
	if status, raw := s.postRaw("/pooling", `{"input":"the dog","task":"token_classify"}`); status != 501 {
		t.Errorf("scores of each token: %d %.100s", status, raw)
	}
}

// TestMaxSim scores documents by the vectors of their tokens: the sum over the query's of the greatest cosine.
func TestMaxSim(t *testing.T) {
	path := testdata.Path(t, "archs/bert.gguf")
	tokens := func(text string) [][]float64 {
		return vectors(t, succeed(t, "embed", "-m", path, text, "--pooling", "none"))
	}
	want := 0.0
	for _, q := range tokens("the dog") {
		best := -1.0
		for _, d := range tokens("a girl") {
			dot := 0.0
			for i := range q {
				dot += q[i] * d[i]
			}
			best = max(best, dot)
		}
		want += best
	}
	out := succeed(t, "rerank", "-m", path, "--pooling", "none", "the dog", "a girl")
	if score, err := strconv.ParseFloat(strings.Fields(out)[0], 64); err != nil || math.Abs(score-want) > 1e-4 {
		t.Errorf("%q, want %g", out, want)
	}
}
