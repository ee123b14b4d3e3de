package model

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/arch"
)

// An Estimate is the memory that running a model takes, in bytes.
type Estimate struct {
	Weights     uint64 // packed, with norms and biases
	KVPer1K     uint64 // keys and values of 1024 tokens
	KV          uint64 // keys and values of a whole context
	Activations uint64 // of a batch, with one row of logits and the scratch of one thread
}

// Total returns the sum for a context that is full.
func (e Estimate) Total() uint64 { return e.Weights + e.KV + e.Activations }

// Memory estimates what the model in f would take, without loading it: with a
// context of ctx tokens, or 0 for the model's own limit, and batches of up to
// batch tokens. It fails where Load would, but for values that are not finite.
func Memory(f *File, ctx, batch int, kv kernel.KVType) (Estimate, error) {
	cfg, err := ReadConfig(f.GGUF)
	if err != nil {
		return Estimate{}, err
	}
	a, err := arch.Lookup(cfg.Arch)
	if err != nil {
		return Estimate{}, err
	}
	w := newWeights(f.GGUF, cfg, true)
	p, err := a.Build(cfg, w, kv)
	if err != nil {
		return Estimate{}, err
	}
	ps, err := newPlans(p)
	if err != nil {
		return Estimate{}, err
	}
	defer ps.close()
	if ctx <= 0 {
		ctx = cfg.NCtx
	}
	batch = max(batch, 1)
	block := uint64(kvBlockBytes(cfg, kv))
	return Estimate{
		Weights:     w.packedBytes() + w.smallBytes(),
		KVPer1K:     block * (1024 / kernel.KVBlock),
		KV:          block * uint64((ctx+kernel.KVBlock-1)/kernel.KVBlock),
		Activations: uint64(kernel.BufBytes(p.Bufs, batch, 1)) + uint64(ps.scratch(batch)),
	}, nil
}
