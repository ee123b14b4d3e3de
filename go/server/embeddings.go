package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An embedQuery is a request for vectors of texts.
type embedQuery struct {
	reads
	input      inputs
	dimensions int
	normalize  int
	encoding   string
	native     bool
}

func newEmbedQuery(m *ask.Model) *embedQuery {
	return &embedQuery{reads: newReads(m), normalize: m.Normalize, encoding: "float"}
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
		dimensionsField(&q.dimensions),
	}
	if !q.native {
		own = append(own, field.Setting("encoding_format", field.OneOf(&q.encoding, "float", "base64"), "base64: a vector is its numbers, in 4 bytes each, little-endian."))
	}
	return append(own, q.reads.Fields()...)
}

func dimensionsField(p *int) field.Field {
	return field.Setting("dimensions", field.Integer(p, 0, math.MaxInt32), "Keep so many of a vector's first numbers, which then gets its length again; 0 is all. For models that were trained for it (Matryoshka).")
}

// checkDimensions refuses more numbers than vectors have.
func checkDimensions(m *ask.Model, n int) error {
	if n > m.Info.NEmbd {
		return reply.Invalid("dimensions", "%d, want at most %d: vectors of this model have no more", n, m.Info.NEmbd)
	}
	return nil
}

// finish cuts a vector and gives it its length.
func finish(v []float32, dimensions, norm int) []float32 {
	if dimensions > 0 {
		v = v[:min(dimensions, len(v))]
	}
	engine.Normalize(v, norm)
	return v
}

type (
	embedAnswer struct {
		Object string       `json:"object"`
		Model  string       `json:"model"`
		Data   []embedEntry `json:"data"`
		Usage  tokenUsage   `json:"usage"`
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
func (s *Server) embeddings(req *Request) error {
	m := req.Model
	q := newEmbedQuery(m)
	all, used, release, err := s.askedVectors(req, q)
	if err != nil {
		return err
	}
	defer release()
	a := embedAnswer{Object: "list", Model: m.Name, Usage: used, Data: []embedEntry{}}
	for i, e := range all {
		v := finish(e.Vectors()[0], q.dimensions, q.normalize)
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
func (s *Server) nativeEmbeddings(req *Request) error {
	m := req.Model
	q := newNativeEmbedQuery(m)
	all, _, release, err := s.askedVectors(req, q)
	if err != nil {
		return err
	}
	defer release()
	answer := []nativeEmbedEntry{}
	for i, e := range all {
		vectors := e.Vectors()
		for k, v := range vectors {
			norm := q.normalize
			if m.Pooling == arch.PoolNone {
				norm = -1
			}
			vectors[k] = finish(v, q.dimensions, norm)
		}
		answer = append(answer, nativeEmbedEntry{i, vectors})
	}
	req.Send(answer)
	return nil
}

// askedVectors reads a request for vectors and makes them.
func (s *Server) askedVectors(req *Request, q *embedQuery) (all []*engine.Embedding, used tokenUsage, release func(), err error) {
	m := req.Model
	fail := func(err error) ([]*engine.Embedding, tokenUsage, func(), error) { return nil, used, nil, err }
	if err := req.Read(q); err != nil {
		return fail(err)
	}
	switch {
	case m.Pooling == arch.PoolRank:
		return fail(reply.Unsupported("this model scores documents and has no vectors of texts; use /v1/rerank, or start the server with --pooling cls, mean or last"))
	case m.Pooling == arch.PoolNone && !q.native:
		return fail(reply.Unsupported("pooling is none, and OpenAI's vectors are of whole texts; use /embeddings, or start the server with another --pooling"))
	}
	if err := checkDimensions(m, q.dimensions); err != nil {
		return fail(err)
	}
	return s.embedInputs(req, &q.reads, q.input, "input")
}

// encodeVector is a vector in OpenAI's encoding.
func encodeVector(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// inputs are texts to make vectors of.
type inputs ask.Prompts

func (p *inputs) Take(r *field.Reader) error {
	all, err := ask.ReadPrompts(r, maxInputs)
	*p = all
	return err
}

func (p *inputs) Value() any { return nil }

func (p *inputs) Schema() field.Schema { return (*ask.Prompts)(p).Schema() }

// embedInputs makes the vectors of the texts of a field.
func (s *Server) embedInputs(req *Request, o *reads, p inputs, name string) (all []*engine.Embedding, used tokenUsage, release func(), err error) {
	m := req.Model
	held := req.tokenStore()
	defer held.release()
	ids, err := p.encode(req.Context(), m, name, held)
	if err != nil {
		return nil, used, nil, err
	}
	req.made()
	return s.embed(req, o, m.Pooling, ids)
}

// encode returns the tokens of each text of a field. Lists of ids come first, then the longest
// texts: where one exceeds the context, few others were encoded for nothing.
func (p inputs) encode(ctx context.Context, m *ask.Model, name string, held *tokenStore) ([][]int32, error) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := p[a].Size(), p[b].Size()
		return cmp.Or(cmp.Compare(y.Ids, x.Ids), cmp.Compare(y.Bytes, x.Bytes))
	})
	all := make([][]int32, len(p))
	for _, i := range order {
		if ctx.Err() != nil {
			return nil, reply.ErrGone
		}
		if n := p[i].Size().Ids; n > m.Ctx {
			return nil, wrapAPI(len(p) > 1, i, &engine.TooLongError{Prompt: n, Ctx: m.Ctx})
		}
		ids, err := p[i].EncodeAs(m, name)
		if err == nil {
			err = held.add(ids)
		}
		if err != nil {
			return nil, wrapAPI(len(p) > 1, i, err)
		}
		all[i] = ids
	}
	return all, nil
}
