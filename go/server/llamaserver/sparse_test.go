package llamaserver_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A sparse vector has the numbers that are not 0, and their tokens, as TEI sends them: here the greatest of the text's.
func TestSparseVectors(t *testing.T) {
	t.Parallel()
	type term struct {
		Index int
		Value float32
	}
	s := reads(t, nn.Classifier{NScore: 3, Tokens: true, TermLogs: 1}, nn.PoolTerms)
	s.Vector = func(r *engine.Request, token int) []float32 { return []float32{float32(token), -1, 2} }
	got := fake.Post[[][]term](s, "/embed_sparse", `{"inputs":["ab","b"]}`)
	if len(got) != 2 || !slices.Equal(got[1], []term{{0, 1}, {2, 2}}) || !slices.Equal(got[0], []term{{0, 2}, {2, 2}}) {
		t.Errorf("%v", got)
	}
	one := fake.Post[[][]term](s, "/embed_sparse", `{"inputs":"ab"}`)
	if len(one) != 1 || !slices.Equal(one[0], got[0]) {
		t.Errorf("a text alone: %v", one)
	}
	long := `"` + strings.Repeat("ab", 300) + `"`
	s.Refused("/embed_sparse", `{"inputs":`+long+`}`, 400, "")
	s.Model().MaxText = 100
	if cut := fake.Post[[][]term](s, "/embed_sparse", `{"truncate":true,"inputs":`+long+`}`); len(cut) != 1 || cut[0][0].Value != 99 {
		t.Errorf("a long text: %v", cut)
	}
	s.Refused("/embed_sparse", `{}`, 400, "inputs")
	s.Refused("/embed_sparse", `{"inputs":"a","prompt_name":"x"}`, 400, "prompt_name")
	s = reads(t, nn.Classifier{}, nn.PoolMean)
	s.Refused("/embed_sparse", `{"inputs":"a"}`, 501, "")
}

// Where each token has a vector, a document has the sum over the query's of the greatest cosine; where vectors are sparse,
// their product.
func TestScoresByVectors(t *testing.T) {
	t.Parallel()
	type scored struct {
		Data []struct{ Score float64 }
	}
	compares := func(pooling nn.Pooling, vector func(r *engine.Request, token int) []float32) *fake.Site {
		return fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
			m.VectorsOnly, m.Engine, m.Pooling, f.Vector = "it makes vectors", unclassed{f}, pooling, vector
		})
	}
	s := compares(nn.PoolNone, func(r *engine.Request, token int) []float32 {
		a := float64(r.Prompt[token])
		return []float32{float32(5 * math.Cos(a)), float32(5 * math.Sin(a))}
	})
	got := fake.Post[scored](s, "/v1/score", `{"text_1":"ab","text_2":["b","ab","c"]}`).Data
	tokens := func(text string) []int32 { return s.Tok.Encode(text, tokenizer.Options{ParseSpecial: true}) }
	for i, text := range []string{"b", "ab", "c"} {
		want := 0.0
		for _, q := range tokens("ab") {
			best := -1.0
			for _, d := range tokens(text) {
				best = max(best, math.Cos(float64(q)-float64(d)))
			}
			want += best
		}
		if math.Abs(got[i].Score-want) > 1e-5 {
			t.Errorf("%q: %g, want %g", text, got[i].Score, want)
		}
	}
	s = compares(nn.PoolTerms, func(_ *engine.Request, token int) []float32 { return []float32{float32(token), -1, 2} })
	got = fake.Post[scored](s, "/v1/score", `{"text_1":"ab","text_2":["b","ab"]}`).Data
	if got[0].Score != 6 || got[1].Score != 8 {
		t.Errorf("products: %v, want 6 and 8", got)
	}
}
