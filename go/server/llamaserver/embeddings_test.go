package llamaserver_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Each text has a list of vectors: its own, which OpenAI's endpoint has too, or those of its tokens, the last of which
// is the text's.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	const text = "Once upon a time"
	type vectors []struct {
		Index     int         `json:"index"`
		Embedding [][]float32 `json:"embedding"`
	}
	one := func(fields string) []float32 {
		return fake.Post[struct {
			Data []struct {
				Embedding []float32 `json:"embedding"`
			} `json:"data"`
		}](s, "/v1/embeddings", `{"input":"`+text+`"`+fields+`}`).Data[0].Embedding
	}
	n := fake.Post[vectors](s, "/embedding", `{"content":["`+text+`","b"]}`)
	if len(n) != 2 || n[1].Index != 1 || len(n[0].Embedding) != 1 || !slices.Equal(n[0].Embedding[0], one("")) {
		t.Errorf("/embedding: %d, %v", len(n), n[0].Index)
	}
	if n := fake.Post[vectors](s, "/embedding", `{"content":"`+text+`","dimensions":16}`); !slices.Equal(n[0].Embedding[0],
		one(`,"dimensions":16`)) {
		t.Errorf("16 numbers: %v", n[0].Embedding)
	}
	none := fake.Embedder(t, func(m *ask.Model) { m.Pooling = nn.PoolNone })
	all := fake.Post[vectors](none, "/embeddings", `{"input":"`+text+`"}`)
	if got := all[0].Embedding; len(got) != len(s.Tokens(text)) ||
		!slices.Equal(got[len(got)-1], one(`,"embd_normalize":-1`)) {
		t.Errorf("%d vectors of tokens, want %d, the last being the text's", len(got), len(s.Tokens(text)))
	}
	ids, _ := json.Marshal(s.Tokens(text))
	if n := fake.Post[vectors](s, "/embedding", `{"input":[`+string(ids)+`]}`); !slices.Equal(n[0].Embedding[0], one("")) {
		t.Error("tokens have another vector than their text")
	}
	s.Refused("/embedding", `{}`, 400, "input")
	s.Refused("/embedding", `{"content":"a","dimensions":257}`, 400, "dimensions")
	ranker := fake.Embedder(t, func(m *ask.Model) { m.Pooling = nn.PoolRank })
	ranker.Refused("/embedding", `{"content":"a"}`, 501, "")
}
