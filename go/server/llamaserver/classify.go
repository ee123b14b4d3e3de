package llamaserver

import (
	"slices"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A vllmList is an answer in vLLM's form: an entry for each text, or pair of texts.
type vllmList[T any] struct {
	ID      string            `json:"id"`
	Object  string            `json:"object"`
	Created int64             `json:"created"`
	Model   string            `json:"model"`
	Data    []T               `json:"data"`
	Usage   answer.TokenUsage `json:"usage"`
}

// sendList answers with a list, whose id begins with prefix.
func sendList[T any](req *answer.Request, prefix string, data []T, used answer.TokenUsage) {
	req.Send(vllmList[T]{ID: prefix + answer.NewID(), Object: "list", Created: time.Now().Unix(), Model: req.Model.Name,
		Data: data, Usage: used})
}

// An activation is the field that says what a classifier's scores are made to.
type activation struct{ ask.Option }

func (a *activation) field() field.Field {
	return field.Setting("use_activation activation", &a.Option,
		"Send probabilities, not what the classifier computes before: true by default.")
}

// raw reports whether a request asks for scores as the classifier has them.
func (a *activation) raw() bool { return a.Given && !a.On }

// A readQuery is what requests have in common that read texts, in vLLM's form.
type readQuery struct {
	answer.Reads
	input     answer.Inputs
	second    texts
	truncate  int
	activates activation
}

func newReadQuery(m *ask.Model) readQuery { return readQuery{Reads: answer.NewReads(m)} }

func (q *readQuery) Fields() []field.Field {
	return append([]field.Field{
		field.Required("input", &q.input, "What to read: text, token ids, both mixed, or an array of these."),
		field.Input("text_pair", &q.second, "A second text, or as many as there are in input: pairs are read, as the "+
			"vocabulary makes them of two texts."),
		answer.TruncateField(&q.truncate),
		q.activates.field(),
	}, q.Reads.Fields()...)
}

// texts returns the tokens of the texts or pairs of a request. Their memory is reserved until release is called.
func (q *readQuery) texts(req *answer.Request) (read []engine.Text, release func(), err error) {
	if q.second == nil {
		return req.EncodeInputs(q.input, "input", q.truncate)
	}
	firsts, ok := q.input.Texts()
	switch n := len(q.second); {
	case !ok:
		return nil, nil, reply.Invalid("input", "token ids beside text_pair, want texts")
	case q.truncate != 0:
		return nil, nil, reply.Invalid("truncate_prompt_tokens", "given beside text_pair, want one of them: pairs are not cut")
	case n != 1 && n != len(firsts):
		return nil, nil, reply.Invalid("text_pair", "%d texts beside %d of input, want one, or as many", n, len(firsts))
	case n == 1:
		q.second = slices.Repeat(q.second, len(firsts))
	}
	return pairs(req, firsts, q.second, "input", "text_pair")
}

// A classifyQuery is a request for the class of texts.
type classifyQuery struct{ readQuery }

func newClassifyQuery(m *ask.Model) *classifyQuery { return &classifyQuery{newReadQuery(m)} }

type classEntry struct {
	Index   int       `json:"index"`
	Label   *string   `json:"label"` // nil: the file has no names
	Probs   []float32 `json:"probs"`
	Classes int       `json:"num_classes"`
}

// classify sends the probabilities of classes of texts, in vLLM's form.
func (s *API) classify(req *answer.Request) error {
	m := req.Model
	q := newClassifyQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	read, release, err := q.texts(req)
	if err != nil {
		return err
	}
	defer release()
	all, used, free, err := req.Embed(&q.Reads, nn.PoolRank, read)
	if err != nil {
		return err
	}
	defer free()
	entries := []classEntry{}
	for i, e := range all {
		scores := e.Vectors()[0]
		best := m.Classifier.Best(scores)
		if !q.activates.raw() {
			engine.Classes(scores, m.Classifier)
		}
		entry := classEntry{Index: i, Probs: scores, Classes: len(scores)}
		if best != "" {
			entry.Label = &best
		}
		entries = append(entries, entry)
	}
	sendList(req, "classify-", entries, used)
	return nil
}

// A poolingQuery is a request for what a model makes of texts or of their tokens.
type poolingQuery struct {
	readQuery
	task      string
	normalize int
}

func newPoolingQuery(m *ask.Model) *poolingQuery {
	return &poolingQuery{readQuery: newReadQuery(m), normalize: m.Normalize}
}

func (q *poolingQuery) Fields() []field.Field {
	return append(q.readQuery.Fields(),
		field.Setting("task", field.OneOf(&q.task, "", "embed", "classify", "token_embed", "token_classify"),
			"Vectors or classes, of texts or of their tokens. By default what the model is for."),
		field.Setting("embd_normalize", field.Integer(&q.normalize, -1, 1<<15),
			"Norm by which vectors of texts get length 1: 2 is Euclidean, 1 the sum, -1 none; 0 makes the largest number "+
				"32760."))
}

// pooling is what the task makes of texts.
func (q *poolingQuery) pooling(m *ask.Model) nn.Pooling {
	switch q.task {
	case "embed":
		if m.Pooling == nn.PoolNone || m.Pooling == nn.PoolRank {
			return nn.PoolMean
		}
		return m.Pooling
	case "classify":
		return nn.PoolRank
	case "token_embed":
		return nn.PoolNone
	case "token_classify":
		return nn.PoolTokens
	}
	switch c := m.Classifier; {
	case m.Pooling.Sparse():
	case c.NScore > 0 && c.Tokens:
		return nn.PoolTokens
	case c.NScore > 0:
		return nn.PoolRank
	}
	return m.Pooling
}

type poolingEntry struct {
	Index  int      `json:"index"`
	Object string   `json:"object"`
	Data   any      `json:"data"`             // numbers of a text, or a list of those of each token
	Tokens []int32  `json:"tokens,omitempty"` // of which Data has numbers each
	Labels []string `json:"labels,omitempty"` // the likeliest class of each token
}

// pooling sends vectors or classes of texts or of their tokens, in vLLM's form.
func (s *API) pooling(req *answer.Request) error {
	m := req.Model
	q := newPoolingQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	pooling := q.pooling(m)
	read, release, err := q.texts(req)
	if err != nil {
		return err
	}
	defer release()
	all, used, free, err := req.Embed(&q.Reads, pooling, read)
	if err != nil {
		return err
	}
	defer free()
	entries := []poolingEntry{}
	for i, e := range all {
		entry := poolingEntry{Index: i, Object: "pooling"}
		rows := e.Vectors()
		if pooling == nn.PoolTokens {
			for _, row := range rows {
				if label := m.Classifier.Best(row); label != "" {
					entry.Labels = append(entry.Labels, label)
				}
			}
		}
		for _, row := range rows {
			switch {
			case pooling == nn.PoolNone:
			case pooling != nn.PoolRank && pooling != nn.PoolTokens:
				engine.Normalize(row, q.normalize)
			case !q.activates.raw():
				engine.Classes(row, m.Classifier)
			}
		}
		if pooling == nn.PoolNone || pooling == nn.PoolTokens {
			entry.Data, entry.Tokens = rows, read[i].IDs
		} else {
			entry.Data = rows[0]
		}
		entries = append(entries, entry)
	}
	sendList(req, "pool-", entries, used)
	return nil
}

// A scoreQuery is a request for how much pairs of texts have to do with each other, in vLLM's form.
type scoreQuery struct {
	answer.Reads
	first, second texts
	activates     activation
}

func newScoreQuery(m *ask.Model) *scoreQuery { return &scoreQuery{Reads: answer.NewReads(m)} }

func (q *scoreQuery) Fields() []field.Field {
	return append([]field.Field{
		{Names: []string{"text_1", "queries", "data_1"}, To: &q.first, Input: true, Need: true,
			Doc: "A text, or as many as the others."},
		{Names: []string{"text_2", "documents", "data_2"}, To: &q.second, Input: true, Need: true,
			Doc: "A text, or several, each of which is scored with the first, or with that in its place."},
		q.activates.field(),
	}, q.Reads.Fields()...)
}

type scoreEntry struct {
	Index  int     `json:"index"`
	Object string  `json:"object"`
	Score  float64 `json:"score"`
}

// score sends the scores of pairs of texts.
func (s *API) score(req *answer.Request) error {
	q := newScoreQuery(req.Model)
	if err := req.Read(q); err != nil {
		return err
	}
	if n := len(q.first); n > 1 && n != len(q.second) {
		return reply.Invalid("text_1", "%d texts beside %d of text_2, want one, or as many", n, len(q.second))
	}
	scores, used, err := scoresOf(req, &q.Reads, q.first, q.second, q.activates.raw())
	if err != nil {
		return err
	}
	entries := []scoreEntry{}
	for i, x := range scores {
		entries = append(entries, scoreEntry{i, "score", x})
	}
	sendList(req, "score-", entries, used)
	return nil
}
