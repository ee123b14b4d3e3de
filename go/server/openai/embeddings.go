package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An embedQuery is a request for vectors of texts.
type embedQuery struct {
	answer.VectorQuery
	encoding string
}

func newEmbedQuery(m *ask.Model) *embedQuery {
	return &embedQuery{answer.NewVectorQuery(m), "float"}
}

func (q *embedQuery) Fields() []field.Field {
	return append(q.VectorQuery.Fields(),
		field.Setting("encoding_format", field.OneOf(&q.encoding, "float", "base64"),
			"base64: a vector is its numbers, in 4 bytes each, little-endian."))
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
)

func (s *API) embeddings(req *answer.Request) error {
	m := req.Model
	q := newEmbedQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if m.Pooling == nn.PoolNone {
		return reply.Bad("pooling is none, and OpenAI's vectors are of whole texts; use /embeddings, or start the " +
			"server with another --pooling")
	}
	all, used, release, err := req.Vectors(&q.VectorQuery)
	if err != nil {
		return err
	}
	defer release()
	a := embedAnswer{Object: "list", Model: m.Name, Usage: used, Data: []embedEntry{}}
	for i, e := range all {
		v := answer.Finish(e.Vectors()[0], q.Dimensions, q.Normalize)
		entry := embedEntry{"embedding", i, v}
		if q.encoding == "base64" {
			entry.Embedding = encodeVector(v)
		}
		a.Data = append(a.Data, entry)
	}
	req.Send(a)
	return nil
}

// encodeVector is a vector in OpenAI's encoding.
func encodeVector(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
