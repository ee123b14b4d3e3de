package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// "quern rerank" has the scores and the order of /v1/rerank, with a classifier, with the template of a file, and by
// vectors.
func TestRerankCommand(t *testing.T) {
	t.Parallel()
	query, docs := "the dog {document}", []string{"a little girl", "a big red dog was there and ran to the girl", "no", "a little girl"}
	types := []string{"-ctk", "f32", "-ctv", "f32"}
	for name, path := range map[string]string{
		"classifier": reranker(t, "bert", nil, "cls.weight", "cls.bias", "cls.output.weight", "cls.output.bias"),
		"template":   reranker(t, "qwen3", []string{"yes", "no"}, "cls.output.weight"),
		"vectors":    testdata.Path(t, "archs/bert.gguf"),
	} {
		body, _ := json.Marshal(map[string]any{"query": query, "documents": docs, "top_n": 3})
		var want, got struct {
			Results []struct {
				Index    int
				Score    float64 `json:"relevance_score"`
				Document struct{ Text string }
			}
		}
		_, raw := serveFile(t, path, types...).postRaw("/v1/rerank", string(body))
		if err := json.Unmarshal(raw, &want); err != nil || len(want.Results) != 3 {
			t.Fatalf("%s: %v %s", name, err, raw)
		}
		args := slices.Concat([]string{"rerank", "-m", path, "--top-n", "3", query}, types)
		if err := json.Unmarshal([]byte(succeed(t, slices.Concat(args, []string{"--json"}, docs)...)), &got); err != nil || len(got.Results) != 3 {
			t.Fatalf("%s: %v, %d results", name, err, len(got.Results))
		}
		lines := ""
		for i, r := range got.Results {
			if w := want.Results[i]; r.Index != w.Index || math.Abs(r.Score-w.Score) > 1e-7 || r.Document.Text != docs[r.Index] {
				t.Errorf("%s: %+v, want %+v", name, r, w)
			}
			lines += fmt.Sprintf("%.6f\t%d\t%s\n", r.Score, r.Index, docs[r.Index])
		}
		for _, in := range []invocation{
			{args: slices.Concat(args, docs)}, {args: append(slices.Clip(args), "-p", strings.Join(docs, "\n"))},
			{args: args, stdin: strings.Join(docs, "\n") + "\n"}, {args: append(slices.Clip(args), "-f", "-"), stdin: strings.Join(docs, "\n")},
		} {
			if r := in.run(t); r.code != 0 || r.stdout != lines {
				t.Errorf("%s: %q: code %d, %q, want %q; %s", name, in.args, r.code, r.stdout, lines, r.stderr)
			}
		}
	}
}

func TestRerankCommandRefuses(t *testing.T) {
	bert := testdata.Path(t, "archs/bert.gguf")
	for _, c := range []struct {
		args, want []string
		code       int
	}{
		{[]string{}, []string{"at least 1"}, 2},
		{[]string{"a", "b"}, []string{"-m"}, 2},
		{[]string{"-m", bert, "a", "b", "-p", "c"}, []string{`"b"`, "-p"}, 2},
		{[]string{"-m", bert, "a", "b", "--top-n", "-1"}, []string{"--top-n"}, 2},
		{[]string{"-m", bert, "a", "b", "--pooling", "rank"}, []string{"does not rank"}, 1},
		{[]string{"-m", bert, "a", "b", strings.Repeat("a ", 200)}, []string{"text 1", "context of 128"}, 1},
		{[]string{"-m", demo.Name, "a", "b"}, []string{"does not rank", "--pooling last or mean"}, 1},
	} {
		quern(t, append([]string{"rerank"}, c.args...)...).refused(t, c.code, c.want...)
	}
	// A generative model scores by its vectors where it is told so.
	out := succeed(t, "rerank", "-m", demo.Name, "--pooling", "mean", "a cat", "a cat", "the big red box")
	if first, _, _ := strings.Cut(out, "\n"); first != "1.000000\t0\ta cat" {
		t.Errorf("by the mean of vectors: %q", out)
	}
}
