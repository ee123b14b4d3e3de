package ollama

import (
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An embedQuery is a request to /api/embed.
type embedQuery struct {
	answer.Reads
	input      answer.Inputs
	dimensions int
	truncates  bool
	keepAlive  keepAlive
	options    field.Object
	old        bool // it is one to /api/embeddings
}

func newEmbedQuery(m *ask.Model) *embedQuery {
	return &embedQuery{Reads: answer.NewReads(m)}
}

func newOldEmbedQuery(m *ask.Model) *embedQuery {
	return &embedQuery{Reads: answer.NewReads(m), old: true}
}

func (q *embedQuery) Fields() []field.Field {
	name := "input"
	if q.old {
		name = "prompt"
	}
	all := append(q.Reads.Fields(),
		field.Required(name, &q.input, "What to make vectors of."),
		field.Input("keep_alive", &q.keepAlive, wantStay),
		field.Input("options", &q.options, "Accepted; without effect."),
	)
	if q.old {
		return all
	}
	return append(all, answer.DimensionsField(&q.dimensions),
		field.Setting("truncate", field.Boolean(&q.truncates),
			"Read the beginning of a text that is too long, which else is refused."))
}

type (
	vectors struct {
		Model      string      `json:"model"`
		Embeddings [][]float32 `json:"embeddings"`
		Total      int64       `json:"total_duration"`
		Load       int64       `json:"load_duration"`
		Prompt     int         `json:"prompt_eval_count"`
	}
	vector struct {
		Embedding []float32 `json:"embedding"`
	}
)

func (s *API) embed(req *answer.Request) error {
	m := req.Model
	begun, q := time.Now(), newEmbedQuery(m)
	all, used, release, err := s.asked(req, q)
	if err != nil {
		return err
	}
	defer release()
	a := vectors{Model: q.Model, Embeddings: [][]float32{}, Prompt: used.PromptTokens}
	if a.Model == "" {
		a.Model = tagOf(m)
	}
	for _, e := range all {
		a.Embeddings = append(a.Embeddings, answer.Finish(e.Vectors()[0], q.dimensions, engine.Euclidean))
	}
	a.Total = time.Since(begun).Nanoseconds()
	req.Send(a)
	return nil
}

// oldEmbed serves /api/embeddings, whose vectors are as they are.
func (s *API) oldEmbed(req *answer.Request) error {
	m := req.Model
	all, _, release, err := s.asked(req, newOldEmbedQuery(m))
	if err != nil {
		return err
	}
	defer release()
	req.Send(vector{all[0].Vectors()[0]})
	return nil
}

func (s *API) asked(
	req *answer.Request, q *embedQuery,
) (all []*engine.Embedding, used answer.TokenUsage, release func(), err error) {
	m := req.Model
	if err = req.Read(q); err == nil {
		err = answer.CheckDimensions(m, q.dimensions)
	}
	if err == nil && (m.Pooling == nn.PoolNone || m.Pooling == nn.PoolRank) {
		err = reply.Unsupported("this server makes no vectors of whole texts; start it with --pooling mean, cls or last")
	}
	if err != nil {
		return nil, used, nil, err
	}
	name := "input"
	if q.old {
		name = "prompt"
	}
	input, err := q.input.Prompted(m, "")
	if err != nil {
		return nil, used, nil, err
	}
	truncate := 0
	if q.truncates {
		truncate = -1
	}
	return req.EmbedInputs(&q.Reads, input, name, truncate, m.Pooling)
}
