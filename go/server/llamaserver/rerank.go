package llamaserver

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/rerank"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A rerankQuery is a request to order documents by what they have to say on a query, in the
// form of Jina and llama-server, of Cohere, or of TEI, which has texts in place of documents.
type rerankQuery struct {
	answer.Reads
	query       string
	documents   documents
	texts       documents
	topN        int
	returnTexts bool
	raw         ask.Option
}

func newRerankQuery(m *ask.Model) *rerankQuery { return &rerankQuery{Reads: answer.NewReads(m)} }

func (q *rerankQuery) Fields() []field.Field {
	return append([]field.Field{
		field.Required("query", field.Text(&q.query), "What the documents are for."),
		field.Input("documents", &q.documents, "Texts, or objects with a text."),
		field.Input("texts", &q.texts, "The same in the form of TEI, whose form the answer then has."),
		field.Setting("top_n", field.Integer(&q.topN, 0, math.MaxInt32), "How many of the best to send; 0 is all."),
		field.Setting("return_documents return_text", field.Boolean(&q.returnTexts), "Send the texts too."),
		field.Setting("raw_scores", &q.raw, "Scores as the classifier has them, not between 0 and 1: false by default in "+
			"the forms of Cohere and TEI, true in others. Those that are probabilities stay."),
	}, q.Reads.Fields()...)
}

type (
	rerankAnswer struct {
		ID      string            `json:"id"`
		Object  string            `json:"object"`
		Model   string            `json:"model"`
		Results []rerankEntry     `json:"results"`
		Usage   answer.TokenUsage `json:"usage"`
		Meta    *cohereMeta       `json:"meta,omitzero"`
	}
	rerankEntry struct {
		Index    int         `json:"index"`
		Score    float64     `json:"relevance_score"`
		Document *rerankText `json:"document,omitzero"`
	}
	rerankText struct {
		Text string `json:"text"`
	}
	teiEntry struct {
		Index int     `json:"index"`
		Score float64 `json:"score"`
		Text  *string `json:"text,omitzero"`
	}
	cohereMeta struct {
		Version struct {
			Version string `json:"version"`
		} `json:"api_version"`
		Tokens struct {
			Input int `json:"input_tokens"`
		} `json:"tokens"`
	}
)

var rerankSchema = field.Schema{"anyOf": []field.Schema{field.SchemaOf(rerankAnswer{}), field.SchemaOf([]teiEntry{})}}

// rerank returns the handler of an endpoint in llama-server's form, or Cohere's.
func (s *API) rerank(cohere bool) func(*answer.Request) error {
	return func(req *answer.Request) error {
		m := req.Model
		q := newRerankQuery(m)
		if err := req.Read(q); err != nil {
			return err
		}
		tei := q.texts != nil
		docs := q.documents
		switch {
		case docs == nil && !tei:
			return reply.Invalid("documents", "missing, want an array of texts")
		case docs != nil && tei:
			return reply.Invalid("texts", "given beside documents, want one of them")
		case tei:
			docs = q.texts
		}
		raw := q.raw.On || !q.raw.Given && !cohere && !tei
		scores, used, err := scoresOf(req, &q.Reads, texts{q.query}, texts(docs), raw)
		if err != nil {
			return err
		}
		entries := []rerankEntry{}
		for _, r := range rerank.Order(scores, q.topN) {
			e := rerankEntry{Index: r.Index, Score: r.Score}
			if q.returnTexts {
				e.Document = &rerankText{docs[r.Index]}
			}
			entries = append(entries, e)
		}
		if tei {
			req.Send(teiEntries(entries))
			return nil
		}
		a := rerankAnswer{ID: "rerank-" + answer.NewID(), Object: "list", Model: m.Name, Results: entries, Usage: used}
		if cohere {
			a.Meta = &cohereMeta{}
			a.Meta.Version.Version, a.Meta.Tokens.Input = "2", used.PromptTokens
		}
		req.Send(a)
		return nil
	}
}

// compares reports whether a model that has no classifier scores documents: an embedding model does, by its vectors.
func compares(m *ask.Model) bool { return m.VectorsOnly != "" && m.Pooling != nn.PoolRank }

// scoresOf returns the scores of documents, each with the query or with the one in its place, by the model's classifier or
// by vectors. Of a classifier of several classes the first has the score, as in llama.cpp.
func scoresOf(req *answer.Request, o *answer.Reads, queries, docs texts, raw bool) ([]float64, answer.TokenUsage, error) {
	m := req.Model
	if _, err := m.Engine.Embedding(1, nn.PoolRank); err != nil {
		if !compares(m) {
			return nil, answer.TokenUsage{}, reply.Unsupported("%v", err)
		}
		return compared(req, o, queries, docs)
	}
	return classified(req, o, queries, docs, raw)
}

// compared returns what the vectors of queries and documents have to do with each other: see rerank.Compare.
func compared(req *answer.Request, o *answer.Reads, queries, docs texts) ([]float64, answer.TokenUsage, error) {
	m := req.Model
	inputs := answer.Inputs{}
	for i, text := range slices.Concat(queries, docs) {
		names := []string{"query"}
		if i >= len(queries) {
			names = []string{"document", "passage"}
		}
		before, _ := m.Prompts.Text(m.Prompts.Default)
		for _, name := range names {
			if own, ok := m.Prompts.Text(name); ok {
				before = own
				break
			}
		}
		inputs = append(inputs, ask.Prompt{{Text: before + text}})
	}
	all, used, release, err := req.EmbedInputs(o, inputs, "documents", 0, m.Pooling)
	if err != nil {
		return nil, used, err
	}
	defer release()
	var scores []float64
	for i := range queries {
		mine := all[len(queries):]
		if len(queries) > 1 {
			mine = mine[i : i+1]
		}
		var vectors [][][]float32
		for _, e := range mine {
			vectors = append(vectors, e.Vectors())
		}
		scores = append(scores, rerank.Compare(m.Pooling, all[i].Vectors(), vectors)...)
	}
	return scores, used, nil
}

// classified returns the scores of documents by the model's classifier: as it has them, or as probabilities.
func classified(req *answer.Request, o *answer.Reads, queries, docs texts, raw bool) ([]float64, answer.TokenUsage, error) {
	read, forget, err := pairs(req, queries, docs, "documents", "query")
	if err != nil {
		return nil, answer.TokenUsage{}, err
	}
	defer forget()
	all, used, release, err := req.Embed(o, nn.PoolRank, read)
	if err != nil {
		return nil, used, err
	}
	defer release()
	scores := make([]float64, len(docs))
	for i, e := range all {
		if scores[i] = float64(e.Vectors()[0][0]); !e.Probabilities() && !raw {
			scores[i] = answer.Sigmoid(scores[i])
		}
	}
	return scores, used, nil
}

// pairs returns the tokens of texts, each with the first of its pair or with the one in its place. Their memory is reserved
// until release is called. The names are of the fields that have them.
func pairs(req *answer.Request, firsts, seconds texts, name, first string) (read []engine.Text, release func(), err error) {
	m, held := req.Model, req.TokenStore()
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	read = make([]engine.Text, len(seconds))
	model := &rerank.Model{Metadata: m.Metadata, Tokenizer: m.Tokenizer, Encode: m.Encode}
	var pair func(second string) (engine.Text, error)
	for i, text := range seconds {
		if req.Context().Err() != nil {
			return nil, nil, reply.ErrGone
		}
		var err error
		if i < len(firsts) {
			pair, err = model.Pairing(firsts[i])
		}
		if err == nil {
			read[i], err = pair(text)
		}
		if err == nil && len(read[i].IDs) == 0 {
			return nil, nil, reply.Invalid(name, "element %d: empty, and so is %s: want some text", i, first)
		}
		if err == nil {
			err = held.Add(read[i].IDs)
		}
		if err != nil {
			return nil, nil, answer.WrapAPI(len(seconds) > 1, i, err)
		}
	}
	req.Made()
	return read, held.Release, nil
}

func teiEntries(entries []rerankEntry) []teiEntry {
	out := []teiEntry{}
	for _, e := range entries {
		one := teiEntry{Index: e.Index, Score: e.Score}
		if e.Document != nil {
			one.Text = &e.Document.Text
		}
		out = append(out, one)
	}
	return out
}

// documents are texts, or objects that have one.
type documents []string

const wantDocuments = "an array of texts, or of objects with a text"

func (d *documents) Take(r *field.Reader) error {
	*d = documents{}
	err := r.Elements(wantDocuments, func(i int) error {
		one, given := "", false
		var err error
		if r.Kind() == '{' {
			err = r.Members(wantDocuments, func(name string) error {
				if name != "text" {
					_, err := r.Raw()
					return err
				}
				given = true
				one, err = r.Text("a string")
				return field.Within(name, err)
			})
			if err == nil && !given {
				err = fmt.Errorf("an object without text, want %s", wantDocuments)
			}
		} else {
			one, err = r.Text("a string, or an object with a text")
		}
		*d = append(*d, one)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
	switch {
	case err != nil:
		return err
	case len(*d) == 0:
		return reply.Bad("empty, want %s", wantDocuments)
	case len(*d) > answer.MaxInputs:
		return reply.Bad("%d texts, want at most %d", len(*d), answer.MaxInputs)
	}
	return nil
}

func (d *documents) Value() any { return []string(*d) }

func (d *documents) Schema() field.Schema {
	s := field.Schema{"type": "string"}
	object := field.Schema{"type": "object", "required": []string{"text"}, "properties": field.Schema{"text": s}}
	return field.Schema{"type": "array", "minItems": 1, "maxItems": answer.MaxInputs, "description": wantDocuments,
		"items": field.Schema{"anyOf": []field.Schema{s, object}}}
}

// texts are documents without objects, or a single one.
type texts []string

func (t *texts) Take(r *field.Reader) error {
	if r.Kind() == '"' {
		one, err := r.Text("a string, or an array of them")
		*t = texts{one}
		return err
	}
	return (*documents)(t).Take(r)
}

func (t *texts) Value() any { return []string(*t) }

func (t *texts) Schema() field.Schema {
	return field.Schema{"anyOf": []field.Schema{{"type": "string"}, (*documents)(t).Schema()}}
}
