package model

import (
	"cmp"
	"math/bits"

	"github.com/quern-llm/quern/go/kvcache"
)

// A Use is the parameters that determine the memory of a running model.
type Use struct {
	Ctx       int // positions of a sequence; 0: the model's own limit
	Sequences int // at a time
	Batch     int // most tokens of a pass
	MaxOut    int // most rows of logits at a time, at most Batch
	Threads   int
	Residency Residency // Auto counts as Packed
	Places    int       // that packed weights are divided over; 0 is 1
}

// An Estimate is the memory of a running model, in bytes.
type Estimate struct {
	Weights     uint64         // outside the file: packed, with norms and biases; of a file that is elsewhere, with its tables
	Apart       uint64         // of these: matrices that the file has in several tensors, or in another order, and that stay packed wherever others are
	StreamLeast uint64         // of the weights: the least that streamed ones pass through
	Streamable  uint64         // more that streamed weights could use: with it none are read again
	Checks      uint64         // panels to check unpacked weights, and what is on its way from elsewhere; released before keys, values and activations are allocated
	Layout      kvcache.Layout // state of a sequence
	KVPer1K     uint64         // of 1024 positions
	KV          uint64         // state of all sequences, each with a full context
	Activations uint64         // buffers and scratch of a pass
}

// Total returns the maximum at any time, with every context full.
func (e Estimate) Total() uint64 { return e.Weights + max(e.Checks, e.KV+e.Activations) }

// Memory returns the memory of the model for this use, without loading it.
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
	weights, ring, most := f.weights.bytesIn(u.Places), uint64(0), uint64(0)
	checks := f.weights.checkBytes()
	if s.file.Remote() {
		if u.Residency == Streamed || u.Residency == Mapped {
			return Estimate{}, errRemote
		}
		stay, load := f.remoteBytes(s.file)
		weights, checks = weights+stay, checks+load
	}
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
		Checks:      checks,
		Layout:      s.Layout,
		KVPer1K:     s.Layout.Bytes(1024),
		KV:          times(s.Layout.Alone(ctx, u.Batch), uint64(u.Sequences)),
		Activations: uint64(bufs + scratch),
	}, nil
}

// Common returns how many bytes of packed weights seem to be shared with other models, and take no memory
// again.
func (s *Survey) Common(shared *Shared) (uint64, error) {
	f, err := s.find(Packed)
	if err != nil || shared == nil || s.file.Remote() {
		return 0, err
	}
	return shared.has(f.weights.mats), nil
}

// times returns a*b, saturated at a value beyond any memory that leaves room for additions.
func times(a, b uint64) uint64 {
	const most = 1 << 62
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return min(lo, most)
	}
	return most
}
