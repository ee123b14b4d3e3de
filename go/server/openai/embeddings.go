package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An embedQuery is a request for vectors of texts.
type embedQuery struct {
	answer.Reads
	input      answer.Inputs
	dimensions int
	normalize  int
	encoding   string
	native     bool
}

func newEmbedQuery(m *ask.Model) *embedQuery {
	return &embedQuery{Reads: answer.NewReads(m), normalize: m.Normalize, encoding: "float"}
}

func newNativeEmbedQuery(m *ask.Model) *embedQuery {
	q := newEmbedQuery(m)
	q.native = true
	return q
}

func (q *embedQuery) Fields() []field.Field {
	own := []field.Field{
		{Names: []string{"input", "content"}, To: &q.input, Doc: "What to make vectors of: text, token ids, both mixed, or an array of these.", Input: true, Need: true},
		field.Setting("embd_normalize", field.Integer(&q.normalize, -1, 1<<15), "Norm by which vectors get length 1: 2 is Euclidean, 1 the sum, -1 none; 0 makes the largest number 32760."),
		answer.DimensionsField(&q.dimensions),
	}
	if !q.native {
		own = append(own, field.Setting("encoding_format", field.OneOf(&q.encoding, "float", "base64"), "base64: a vector is its numbers, in 4 bytes each, little-endian."))
	}
	return append(own, q.Reads.Fields()...)
}

type (
	embedAnswer struct {
		Object string            `json:"object"`
		Model  string            `json:"model"`
		Data   []embedEntry      `json:"data"`
		Usage  answer.TokenUsage `json:"usage"`
	}
	embedEntry struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"` // numbers, or base64
	}
	nativeEmbedEntry struct {
		Index     int         `json:"index"`
		Embedding [][]float32 `json:"embedding"`
	}
)

// embeddings serves OpenAI's endpoint.
func (s *API) embeddings(req *answer.Request) error {
	m := req.Model
	q := newEmbedQuery(m)
	all, used, release, err := s.askedVectors(req, q)
	if err != nil {
		return err
	}
	defer release()
	a := embedAnswer{Object: "list", Model: m.Name, Usage: used, Data: []embedEntry{}}
	for i, e := range all {
		v := answer.Finish(e.Vectors()[0], q.dimensions, q.normalize)
		entry := embedEntry{"embedding", i, v}
		if q.encoding == "base64" {
			entry.Embedding = encodeVector(v)
		}
		a.Data = append(a.Data, entry)
	}
	req.Send(a)
	return nil
}

// nativeEmbeddings serves llama-server's endpoint. Vectors of tokens are as they are.
func (s *API) nativeEmbeddings(req *answer.Request) error {
	m := req.Model
	q := newNativeEmbedQuery(m)
	all, _, release, err := s.askedVectors(req, q)
	if err != nil {
		return err
	}
	defer release()
	list := []nativeEmbedEntry{}
	for i, e := range all {
		vectors := e.Vectors()
		for k, v := range vectors {
			norm := q.normalize
			if m.Pooling == nn.PoolNone {
				norm = -1
			}
			vectors[k] = answer.Finish(v, q.dimensions, norm)
		}
		list = append(list, nativeEmbedEntry{i, vectors})
	}
	req.Send(list)
	return nil
}

// askedVectors reads a request for vectors and makes them.
func (s *API) askedVectors(req *answer.Request, q *embedQuery) (all []*engine.Embedding, used answer.TokenUsage, release func(), err error) {
	m := req.Model
	fail := func(err error) ([]*engine.Embedding, answer.TokenUsage, func(), error) { return nil, used, nil, err }
	if err := req.Read(q); err != nil {
		return fail(err)
	}
	switch {
	case m.Pooling == nn.PoolRank:
		return fail(reply.Unsupported("this model scores documents and has no vectors of texts; use /v1/rerank, or start the server with --pooling cls, mean or last"))
	case m.Pooling == nn.PoolNone && !q.native:
		return fail(reply.Unsupported("pooling is none, and OpenAI's vectors are of whole texts; use /embeddings, or start the server with another --pooling"))
	}
	if err := answer.CheckDimensions(m, q.dimensions); err != nil {
		return fail(err)
	}
	return req.EmbedInputs(&q.Reads, q.input, "input")
}

// encodeVector is a vector in OpenAI's encoding.
func encodeVector(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
