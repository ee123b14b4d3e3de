package synth

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"

	"github.com/quern-llm/quern/go/gguf"
)

// chunk is the approximate unit of generation and writing, in bytes: large enough for
// efficient writes, small enough to stay in the cache in between.
const chunk = 256 << 10

// fill writes the data of t.
func (m Model) fill(ctx context.Context, w io.Writer, t tensor) error {
	if t.values != nil {
		p, err := binary.Append(nil, binary.LittleEndian, t.values)
		if err != nil {
			return err
		}
		return gguf.Bytes(p)(w)
	}
	left, err := t.typ.Size(t.dims)
	if err != nil {
		return err
	}
	var (
		random  = rand.NewPCG(m.Seed, hash(t.name))
		weights = newMaker(t.typ, 1/math.Sqrt(float64(t.dims[0])))
		block   = uint64(weights.bytes)
		buf     = make([]byte, (chunk/block*block+7)&^7)
	)
	for left > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i := 0; i < len(buf); i += 8 {
			binary.LittleEndian.PutUint64(buf[i:], random.Uint64())
		}
		p := buf[:min(left, chunk/block*block)]
		weights.make(p)
		if _, err := w.Write(p); err != nil {
			return err
		}
		left -= uint64(len(p))
	}
	return nil
}

// hash seeds an independent random stream for each tensor.
func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
