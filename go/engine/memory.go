package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// autoCtx is the context for which Auto residency leaves memory beside packed weights if none was requested.
const autoCtx = 4096

// Memory returns the memory that Open would take for the model in f on a device with so many threads. For
// what c leaves open, it assumes the model's own context and packed weights. c needs no Device.
func Memory(f *model.File, threads int, c Config) (model.Estimate, error) {
	if err := c.fill(); err != nil {
		return model.Estimate{}, err
	}
	var encoders encoders
	if err := encoders.open(&c); err != nil {
		return model.Estimate{}, err
	}
	s, err := c.survey(f)
	if err != nil {
		return model.Estimate{}, err
	}
	e, err := s.Memory(c.use(s, threads))
	e.Weights += encoders.bytes()
	return e, err
}

// survey returns what the model in f needs, including an MTP layer if one is requested and exists.
func (c *Config) survey(f *model.File) (*model.Survey, error) {
	s, err := c.needed(f)
	if err != nil || !c.MTP || s.Config.Drafts || c.byLayers() {
		return s, err
	}
	if d, err := s.Drafting(); err == nil {
		return d, nil
	}
	return s, nil
}

// needed returns what the model in f needs without its MTP layers. A head in a separate file is included,
// because it was requested explicitly.
func (c *Config) needed(f *model.File) (*model.Survey, error) {
	s, err := model.NewSurvey(f, c.KVTypes(), c.Ctx, c.tiers()...)
	if err == nil && c.Fine {
		s, err = s.Finer()
	}
	if err == nil && c.Sparse.Part > 0 {
		s, err = s.Sparser(c.Sparse)
	}
	if err == nil && c.Ranks != nil {
		s, err = c.divided(s)
	}
	if err == nil && c.Media != nil {
		s, err = s.Seeing()
	}
	if err != nil || !c.MTP || s.Config.Head.Arch == "" {
		return s, err
	}
	return s.Drafting()
}

// errNoRoom reports that an MTP layer is not used for lack of memory.
var errNoRoom = errors.New("there is no memory for the layer that predicts further tokens")

// plan surveys the model in f and decides where its weights are. An MTP layer is included if it is requested
// and other weights leave memory for it; otherwise why is set to the reason. A head in a separate file is
// always included.
func (c *Config) plan(f *model.File, free uint64, threads int, why *error) (*model.Survey, Plan, error) {
	s, err := c.needed(f)
	if err != nil {
		return nil, Plan{}, err
	}
	p, err := c.place(s, free, threads)
	if err != nil || !c.MTP || c.Vectors || s.Config.Drafts {
		return s, p, err
	}
	if c.byLayers() {
		*why = fmt.Errorf("layers that draft are %w", errByLayers)
		return s, p, nil
	}
	d, err := s.Drafting()
	if err != nil {
		*why = err
		return s, p, nil
	}
	with, err := c.place(d, free, threads)
	switch {
	case err != nil:
		*why = err
	case with.Use.Residency != p.Use.Residency || with.Need.Total() > free:
		*why = errNoRoom
	default:
		return d, with, nil
	}
	return s, p, nil
}

// use returns c as the use of a model on so many threads.
func (c *Config) use(s *model.Survey, threads int) model.Use {
	u := model.Use{
		Ctx: cmp.Or(c.Ctx, s.Config.NCtx), Sequences: c.Sequences, Threads: threads, Residency: c.Residency,
		Places: len(c.Device.nodes()),
	}
	u.Batch = min(c.Batch, u.Ctx*u.Sequences)
	if c.Media != nil && s.Config.SeesMedia() {
		u.Batch = max(u.Batch, min(c.Media.Span, u.Ctx)+u.Sequences-1) // beside streams
	}
	if s.Config.OnePass() {
		u.Batch = u.Ctx
		if len(s.Config.Encoder) > 0 { // beside as many answers as there can be
			u.Batch += u.Sequences * len(s.Config.Start)
		}
	}
	u.MaxOut = min(outRows(s.Config.NVocab, u.Sequences), u.Batch)
	return u
}

// outRows returns how many rows of logits are computed at a time for so many sequences.
func outRows(nVocab, sequences int) int {
	return max(maxOut, min(sequences, outBytes/(4*max(nVocab, 1))))
}

// place decides whether the weights are packed, streamed or mapped with so much free memory, and returns the
// memory that the model then needs: with the minimum acceptable context if none was requested.
func (c *Config) place(s *model.Survey, free uint64, threads int) (p Plan, err error) {
	p.Use = c.use(s, threads)
	u, need := &p.Use, &p.Need
	within := func(positions int) {
		switch {
		case c.Shared && c.KVBytes > 0:
			need.KV = c.KVBytes
		case c.Shared && c.Ctx > 0:
			need.KV = least(need.Layout, c.Ctx)
		case c.Shared:
			need.KV = min(need.KV, least(need.Layout, positions))
		case c.Ctx == 0:
			need.KV = min(need.KV, need.Layout.Alone(positions, u.Batch)*uint64(u.Sequences))
		}
	}
	if u.Residency == model.Auto && s.InPlace() > 0 && u.Places < 2 { // its panels are used where they are
		u.Residency = model.Mapped
		if *need, err = c.estimate(s, *u); err != nil {
			return p, err
		}
		if within(autoCtx); need.Total()+s.InPlace() > free {
			u.Residency = model.Streamed
		}
	} else if u.Residency == model.Auto {
		u.Residency = model.Packed
		if *need, err = c.estimate(s, *u); err != nil {
			return p, err
		}
		if within(autoCtx); need.Total() > free && !s.PackedOnly() {
			u.Residency = model.Streamed
			if *need, err = c.estimate(s, *u); err != nil || need.Total() > free {
				u.Residency = model.Mapped
			}
		}
	}
	if *need, err = c.estimate(s, *u); err != nil {
		return p, err
	}
	if whole := *need; u.Residency == model.Streamed { // weights take all that is left, so contexts have theirs before
		if within(autoCtx); need.Total() <= free {
			return p, nil
		}
		*need = whole
	}
	within(1)
	return p, nil
}

// estimate returns the additional memory of a model, given those on the device, with which it may share
// weights.
func (c *Config) estimate(s *model.Survey, u model.Use) (model.Estimate, error) {
	e, err := s.Memory(u)
	if err == nil && u.Residency == model.Packed && c.Device != nil {
		var n uint64
		n, err = s.Common(c.Device.shared)
		e.Weights -= min(e.Weights, n)
	}
	return e, err
}

// streamable is the part of the free memory that streamed weights leave for later allocations: tables that
// stay in the file, requests, answers, the program's heap.
func streamable(free uint64) uint64 { return free / 32 }

// least is the minimum memory with which a sequence can grow to so many positions, slice by slice, with a
// spare block to copy a shared one.
func least(l kvcache.Layout, positions int) uint64 {
	return l.Most(positions, kvcache.BlockTokens) + l.Copy()
}

// room returns the largest number of positions, in whole blocks up to `most`, for which `need` is at most
// `bytes`.
func room(most int, bytes uint64, need func(positions int) uint64) int {
	n := sort.Search(most/kvcache.BlockTokens+1, func(blocks int) bool {
		return need((blocks+1)*kvcache.BlockTokens) > bytes
	})
	return n * kvcache.BlockTokens
}

// ends is the number of ends of texts per sequence that the pool has memory for if there is enough: those of
// a system prompt and of the last turns.
const ends = 8

// kvBytes returns the size of the KV pool, given `free` bytes for it, and shortens the context if it was left
// open.
func (c *Config) kvBytes(u *model.Use, l kvcache.Layout, free uint64) (uint64, error) {
	each := func(positions int) uint64 { return l.Alone(positions, u.Batch) }
	if !c.Shared {
		if c.Ctx == 0 { // as long as memory allows
			u.Ctx = min(u.Ctx, max(room(u.Ctx, free/uint64(u.Sequences), each), kvcache.BlockTokens))
		}
		return min(each(u.Ctx), math.MaxInt64/uint64(u.Sequences)) * uint64(u.Sequences), nil
	}
	bytes := c.KVBytes
	if bytes == 0 {
		whole := min(each(u.Ctx)+ends*l.End(), math.MaxInt64/uint64(u.Sequences)-l.Copy())
		most := whole*uint64(u.Sequences) + l.Copy()
		bytes = min(max(free/2, least(l, 1)), most)
		if c.Ctx > 0 {
			bytes = max(bytes, least(l, c.Ctx))
		}
	}
	if len(l) == 1 {
		bytes -= bytes % uint64(l[0].Bytes) // whole blocks
	}
	if fits := room(u.Ctx, bytes, func(n int) uint64 { return least(l, n) }); fits < u.Ctx {
		if c.Ctx > 0 || fits == 0 {
			return 0, fmt.Errorf("keys and values of a context of %d tokens need %s, want at most the %s that are set aside for them", max(c.Ctx, kvcache.BlockTokens),
				mem.FormatBytes(least(l, max(c.Ctx, 1))), mem.FormatBytes(c.KVBytes))
		}
		u.Ctx = fits
	}
	return bytes, nil
}

// A holding is a list of reservations.
type holding []*mem.Reservation

// hold reserves the memory that the model needs besides its weights, so that a model that does not fit is
// refused before they are read.
func hold(b *mem.Budget, u model.Use, need model.Estimate) (holding, error) {
	what := "packed weights"
	switch u.Residency {
	case model.Mapped:
		what = "weights outside the file"
	case model.Streamed:
		what = "streamed weights"
	}
	weights, err := b.Reserve(what, need.Weights)
	if err != nil {
		return nil, err
	}
	defer weights.Release() // Load reserves them itself
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
