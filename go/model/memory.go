package model

import (
	"cmp"
	"math/bits"

	"github.com/quern-llm/quern/go/kvcache"
)

// A Use is the parameters of running a model that determine its memory.
type Use struct {
	Ctx       int // positions of a sequence; 0: the model's own limit
	Sequences int // at a time
	Batch     int // most tokens of a pass
	MaxOut    int // most rows of logits at a time, at most Batch
	Threads   int
	Residency Residency // Auto counts as Packed
}

// An Estimate is the memory that running a model takes, in bytes.
type Estimate struct {
	Weights     uint64         // outside the file: packed, with norms and biases
	Apart       uint64         // of these: matrices that the file has in several tensors, or in another order, and that stay packed wherever others are
	StreamLeast uint64         // of the weights: the least that streamed ones pass through
	Streamable  uint64         // more that streamed weights could use: with it none are read again
	Checks      uint64         // panels to check unpacked weights; released before keys, values and activations are allocated
	Layout      kvcache.Layout // state of a sequence
	KVPer1K     uint64         // of 1024 positions
	KV          uint64         // state of all sequences, each with a full context
	Activations uint64         // buffers and scratch of a pass
}

// Total returns the most that is taken at once, when every context is full.
func (e Estimate) Total() uint64 { return e.Weights + max(e.Checks, e.KV+e.Activations) }

// Memory returns what the model takes for this use, without loading it.
func (s *Survey) Memory(u Use) (Estimate, error) {
	f, err := s.find(u.Residency)
	if err != nil {
		return Estimate{}, err
	}
	ps, err := newPlans(f.program, f.weights)
	if err != nil {
		return Estimate{}, err
	}
	defer ps.close()
	ctx := cmp.Or(u.Ctx, s.Config.NCtx)
	bufs, scratch := runnerBytes(f.program, ps, u.Batch, u.MaxOut, u.Threads)
	weights, ring, most := f.weights.bytes(), uint64(0), uint64(0)
	if u.Residency == Streamed {
		if !s.file.CanStream() {
			return Estimate{}, errNoStream
		}
		least, all := streamBytes(f)
		weights, ring, most = weights+least, least, all-least
	}
	return Estimate{
		Weights:     weights,
		Apart:       f.weights.apartBytes(),
		StreamLeast: ring,
		Streamable:  most,
		Checks:      f.weights.checkBytes(),
		Layout:      s.Layout,
		KVPer1K:     s.Layout.Bytes(1024),
		KV:          times(s.Layout.Alone(ctx, u.Batch), uint64(u.Sequences)),
		Activations: uint64(bufs + scratch),
	}, nil
}

// Common returns how many bytes of packed weights other models seem to have, so that they take no memory again.
func (s *Survey) Common(shared *Shared) (uint64, error) {
	f, err := s.find(Packed)
	if err != nil || shared == nil {
		return 0, err
	}
	return shared.has(f.weights.mats), nil
}

// times is a*b, saturated at a value that no memory reaches and with which sums do not
// overflow.
func times(a, b uint64) uint64 {
	const most = 1 << 62
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return min(lo, most)
	}
	return most
}
