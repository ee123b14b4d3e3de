package llamaserver

import (
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
)

func newEmbedQuery(m *ask.Model) *answer.VectorQuery {
	q := answer.NewVectorQuery(m)
	return &q
}

// An embedEntry has the vectors of a text: one, or one for each token.
type embedEntry struct {
	Index     int         `json:"index"`
	Embedding [][]float32 `json:"embedding"`
}

// embeddings makes vectors of texts. Those of tokens are as they are.
func (s *API) embeddings(req *answer.Request) error {
	m := req.Model
	q := newEmbedQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	all, _, release, err := req.Vectors(q)
	if err != nil {
		return err
	}
	defer release()
	list := []embedEntry{}
	for i, e := range all {
		vectors := e.Vectors()
		for k, v := range vectors {
			norm := q.Normalize
			if m.Pooling == nn.PoolNone {
				norm = -1
			}
			vectors[k] = answer.Finish(v, q.Dimensions, norm)
		}
		list = append(list, embedEntry{i, vectors})
	}
	req.Send(list)
	return nil
}
