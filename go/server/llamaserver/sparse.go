package llamaserver

import (
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A sparseQuery is a request for sparse vectors of texts, in the form of TEI.
type sparseQuery struct {
	answer.Reads
	input    answer.Inputs
	truncate bool
	prompt   string
}

func newSparseQuery(m *ask.Model) *sparseQuery { return &sparseQuery{Reads: answer.NewReads(m)} }

func (q *sparseQuery) Fields() []field.Field {
	return append([]field.Field{
		field.Required("inputs", &q.input, "What to make vectors of: text, token ids, both mixed, or an array of these."),
		field.Setting("truncate", field.Boolean(&q.truncate),
			"Read as many of the first tokens of a longer text as the model takes; without it, what is longer is refused."),
		answer.PromptNameField(&q.prompt),
	}, q.Reads.Fields()...)
}

// sparse sends the numbers that are not 0 of the vector of each text, and the ids of the tokens that they are of.
func (s *API) sparse(req *answer.Request) error {
	m := req.Model
	q := newSparseQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if !m.Pooling.Sparse() {
		return reply.Unsupported("%v; use /v1/embeddings", engine.ErrNotSparse)
	}
	input, err := q.input.Prompted(m, q.prompt)
	if err != nil {
		return err
	}
	cut := 0
	if q.truncate {
		cut = -1
	}
	all, _, release, err := req.EmbedInputs(&q.Reads, input, "inputs", cut, m.Pooling)
	if err != nil {
		return err
	}
	defer release()
	list := [][]engine.Term{}
	for _, e := range all {
		list = append(list, engine.Terms(e.Vectors()[0]))
	}
	req.Send(list)
	return nil
}
