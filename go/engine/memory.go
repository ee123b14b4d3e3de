package engine

import (
	"cmp"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// autoCtx is the context that Auto residency leaves room for beside packed
// weights when none was asked for.
const autoCtx = 4096

// Memory returns what Open would take for the model in f, with the model's own
// context where c has none, and with packed weights where c leaves that open.
func Memory(f *model.File, c Config) (model.Estimate, error) {
	if err := c.fill(); err != nil {
		return model.Estimate{}, err
	}
	s, err := model.NewSurvey(f, c.KVTypes())
	if err != nil {
		return model.Estimate{}, err
	}
	return s.Memory(c.use(s))
}

// use returns what c means for a model.
func (c *Config) use(s *model.Survey) model.Use {
	u := model.Use{
		Ctx: cmp.Or(c.Ctx, s.Config.NCtx), Sequences: c.Sequences, Threads: c.Threads, Residency: c.Residency,
	}
	u.Batch = min(c.Batch, u.Ctx*u.Sequences)
	u.MaxOut = min(maxOut, u.Batch)
	return u
}

// place decides where the weights are to be, and returns what the model then
// needs. Where no context was asked for, that is with the least which will do.
func (c *Config) place(s *model.Survey) (u model.Use, need model.Estimate, err error) {
	u = c.use(s)
	within := func(positions int) {
		block := need.KVPer1K / (1024 / kvcache.BlockTokens)
		switch {
		case c.Shared && c.KVBytes > 0:
			need.KV = c.KVBytes
		case c.Shared && c.Ctx > 0:
			need.KV = block * uint64(blocksFor(c.Ctx)+1)
		case c.Shared:
			need.KV = min(need.KV, block*uint64(blocksFor(positions)+1))
		case c.Ctx == 0:
			need.KV = min(need.KV, block*uint64(blocksFor(positions)*u.Sequences))
		}
	}
	if u.Residency == model.Auto {
		u.Residency = model.Packed
		if need, err = s.Memory(u); err != nil {
			return u, need, err
		}
		if within(autoCtx); need.Total() > c.Budget.Free() {
			u.Residency = model.Mapped
		}
	}
	need, err = s.Memory(u)
	within(1)
	return u, need, err
}

// blocks returns how many KV blocks of `block` bytes there are to be, with `free`
// bytes left for them, and shortens the context where it was left open.
func (c *Config) blocks(u *model.Use, block, free uint64) (int, error) {
	most := uint64(blocksFor(u.Ctx)) * uint64(u.Sequences)
	if !c.Shared {
		if c.Ctx == 0 { // as far as the memory goes
			each := max(min(uint64(blocksFor(u.Ctx)), free/block/uint64(u.Sequences)), 1)
			u.Ctx = min(u.Ctx, int(each)*kvcache.BlockTokens)
			most = each * uint64(u.Sequences)
		}
		return int(min(most, math.MaxInt)), nil
	}
	n := c.KVBytes / block
	if c.KVBytes == 0 {
		n = min(max(free/2/block, 2), most+1)
		if c.Ctx > 0 {
			n = max(n, uint64(blocksFor(c.Ctx))+1)
		}
	}
	// One block more than a context: to copy one that is shared.
	if room := (int(min(n, 1<<32)) - 1) * kvcache.BlockTokens; room < u.Ctx {
		if c.Ctx > 0 || room < kvcache.BlockTokens {
			return 0, fmt.Errorf("keys and values of a context of %d tokens need %s, want at most the %s that are set aside for them", max(c.Ctx, kvcache.BlockTokens),
				mem.FormatBytes(uint64(blocksFor(max(c.Ctx, 1))+1)*block), mem.FormatBytes(c.KVBytes))
		}
		u.Ctx = room
	}
	return int(n), nil
}

// A holding is memory that is spoken for.
type holding []*mem.Reservation

// hold takes from the budget what the model needs beside its weights, so that
// what will not fit is refused before they are read.
func hold(b *mem.Budget, u model.Use, need model.Estimate) (holding, error) {
	what := "packed weights"
	if u.Residency == model.Mapped {
		what = "weights outside the file"
	}
	weights, err := b.Reserve(what, need.Weights)
	if err != nil {
		return nil, err
	}
	defer weights.Release() // Load takes them itself
	kv, err := b.Reserve("keys and values", need.KV)
	if err != nil {
		return nil, err
	}
	act, err := b.Reserve("activations", need.Activations)
	if err != nil {
		kv.Release()
		return nil, err
	}
	return holding{kv, act}, nil
}

func (h holding) bytes() uint64 {
	n := uint64(0)
	for _, r := range h {
		n += r.Bytes()
	}
	return n
}

func (h holding) release() {
	for _, r := range h {
		r.Release()
	}
}
