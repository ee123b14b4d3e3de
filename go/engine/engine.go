// Package engine runs models over sequences of tokens. An Engine is one model: it owns the weights, the KV
// cache and the activations, and makes all changes to them. A Device is the threads and the memory that
// engines share. The package deals with token ids; text is left to the layers above.
//
// A token's logits do not depend on the other sequences of a pass, on how a prompt was split, on the number
// of threads, or on where the weights are.
//
// An Engine and its sequences are not safe for concurrent use.
package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
)

// ErrTooLong reports tokens that do not fit in the context.
var ErrTooLong = errors.New("the context is too small")

// ErrDamaged reports that the model's file was truncated or has become unreadable. All later calls of the
// engine fail with it.
var ErrDamaged = model.ErrDamaged

// hotPurpose is the budget purpose of room for pages of mapped weights.
const hotPurpose = "pages of mapped weights"

const (
	defaultBatch = 512
	// maxOut is how many rows of logits a request has in a pass, and how many are computed at a time at least: at
	// this many, reading the output matrix no longer decides the time of few cores.
	maxOut = 32
	// outBytes bounds the rows that are computed at a time for more requests than that. Each slice of them reads the
	// output matrix once more, and while its tokens are sampled the threads of the pool have nothing to do.
	outBytes = 64 << 20
	// maxContext bounds the context that can be configured: positions are 32-bit.
	maxContext = 1 << 28
)

// Config says how to open a model. The Device is required; other zero values are replaced by defaults that
// depend on the model and the device.
type Config struct {
	Device    *Device
	Ctx       int           // positions of a sequence; 0: the model's own limit, as far as memory allows
	Sequences int           // at a time; 0: one
	Shared    bool          // sequences share one KV pool; else each has space for Ctx positions
	KVBytes   uint64        // size of the shared pool; 0: half of what is free beside the model
	Batch     int           // maximum tokens of a pass; 0: 512
	KV        kvcache.Types // in which keys and values are stored
	Tiers     kvcache.Tiers // the same by age; nil: all as KV says
	Sparse    model.Sparse  // which keys prompts read; the zero value: all
	Fine      bool          // activations have 16 bits instead of 8 where weights are quantized: see model.Survey.Finer
	Residency model.Residency
	Shift     bool                     // a text that reaches the end of the context loses older tokens and goes on
	MTP       bool                     // the first of the model's own layers that predict further tokens drafts, where the file has some and there is memory for it; or the file's head
	Media     *Media                   // prompts may have pictures and sounds; nil: text only
	Vectors   bool                     // the model is asked for vectors of texts, not for logits; one sequence then has Ctx positions
	Progress  func(done, total uint64) // bytes of the file read; nil: silent
	Early     bool                     // passes may begin before all weights are packed, and fail where these cannot be read
	Until     context.Context          // loading fails with its error once it ends; nil: it goes on
	Ranks     *Ranks                   // among which the model is divided; nil: it is not
}

// An Engine is a loaded model, ready to run.
type Engine struct {
	file   *model.File
	device *Device
	model  *model.Model
	runner *model.Runner
	kv     *kvcache.Pool
	tree   *kvcache.Tree // cached state of sequences that have ended
	mover  *model.Mover  // nil: contexts are not shifted, and blocks do not age
	shifts bool          // contexts are shifted
	ctx    int
	batch  int
	seqs   int              // maximum of a pass
	hot    *mem.Reservation // room for pages of mapped weights; nil if they are packed
	banned []int32

	streamed uint64 // memory of streamed weights when it is not short; 0 if they are not

	adapters []*model.Adapter // by number; nil where there is none

	item  [1]Item // scratch of passes over a single sequence
	alone *Loop   // of Generate, made with its first text

	// Scratch of heads: row indices as in model.Runner, their owners, the logits.
	rows   []int32
	wanted []int32 // of an item
	owners []int
	parts  []part
	logits [][]float32

	config Config        // as it was opened with
	taken  atomic.Uint64 // bytes of weights and activations

	mediaIDs  *mediaIDs
	encoders  encoders
	mediaRows rowStore

	library *draft.Library // of what its texts are drafted from
	drafts  *draftModel    // nil: there is none
	mtp     *mtp           // nil: no layer of the model drafts
	noMTP   error          // why not, where that was asked for

	lead              *model.Lead   // of the other ranks; nil: there are none
	stages            *stages       // passes may be computed in parts; nil: they may not
	talk              sync.Mutex    // held while these are asked something and answer
	watching, watched chan struct{} // closed to end the watch of these, and once it has

	awaited  bool // the last pass waited for weights: how long it took says nothing of others
	timeless bool // passes count as taking no time, in tests of what must not depend on it

	kvTypes kvcache.Types
	kvTiers kvcache.Tiers
	printed sync.Once
	print   []byte // see fingerprint
}

// Open loads the model at path. Errors are one line and name the file. A model that
// does not fit in memory is refused before it is read.
func Open(path string, c Config) (*Engine, error) {
	file, err := model.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return New(file, c)
}

// New loads a model from an open file, as Open does. It takes ownership of the file:
// the file is closed with the engine, or at once if loading fails.
func New(file *model.File, c Config) (*Engine, error) {
	if err := c.fill(); err != nil {
		file.Close()
		if c.Media != nil && c.Media.Projector != nil {
			c.Media.Projector.Close()
		}
		return nil, err
	}
	e := &Engine{file: file, device: c.Device, library: draft.NewLibrary(), mediaIDs: newMediaIDs(), kvTypes: c.KV, kvTiers: c.Tiers, config: c}
	if err := e.load(c); err != nil {
		e.Close()
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return e, nil
}

// fill replaces zero values and refuses values out of range.
func (c *Config) fill() error {
	for _, v := range []struct {
		name    string
		n, most int
	}{
		{"context", c.Ctx, maxContext}, {"sequences", c.Sequences, 1 << 16}, {"batch", c.Batch, 1 << 20},
	} {
		if v.n < 0 || v.n > v.most {
			return fmt.Errorf("%s %d, want 0 to %d", v.name, v.n, v.most)
		}
	}
	if len(c.Tiers) > 0 {
		c.KV = c.Tiers[0].Types
		if c.Sparse.Part > 0 {
			return errors.New("keys and values in tiers are read by all tokens; leave out --kv-tiers or --sparse-prompts")
		}
		if c.Shift {
			return errors.New("keys and values in tiers by age cannot be shifted: they would have another age; leave out --kv-tiers or --context-shift")
		}
	}
	for _, t := range []kvcache.Type{c.KV.K, c.KV.V} {
		if _, ok := kvTypes[t]; !ok {
			return fmt.Errorf("KV %v is not supported", t)
		}
	}
	if c.Ranks != nil {
		if err := c.divide(); err != nil {
			return err
		}
	}
	if c.Sequences == 0 {
		c.Sequences = 1
	}
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	return c.fillSparse()
}

var kvTypes = map[kvcache.Type]kernel.KVType{
	kvcache.F16: kernel.KVF16, kvcache.F32: kernel.KVF32, kvcache.BF16: kernel.KVBF16,
	kvcache.I16: kernel.KVI16, kvcache.Q8: kernel.KVQ8, kvcache.Q4: kernel.KVQ4,
}

// KVTypes returns c.KV in the kernels' types.
func (c *Config) KVTypes() kernel.KVTypes {
	return kernel.KVTypes{K: kvTypes[c.KV.K], V: kvTypes[c.KV.V]}
}

// tiers returns c.Tiers in the model's types.
func (c *Config) tiers() (all []nn.Tier) {
	from := 0
	for _, s := range c.Tiers {
		all = append(all, nn.Tier{KV: kernel.KVTypes{K: kvTypes[s.K], V: kvTypes[s.V]}, From: from, To: s.Positions})
		from = s.Positions
	}
	return all
}

func (e *Engine) load(c Config) error {
	// Sizes first: a model that does not fit is refused before its weights are read.
	budget := c.Device.budget
	if head, err := e.file.Config(); err != nil {
		return err
	} else if head.BothWays && !c.Vectors {
		return fmt.Errorf("%s %w; \"quern embed\" makes vectors", head.Arch, ErrBothWays)
	} else if len(head.Encoder) > 0 && c.Vectors {
		return answersOnly(head)
	} else if c.Media != nil && head.SeesMedia() && len(c.Tiers) > 0 {
		return fmt.Errorf("%s sees pictures whole, and keys and values in tiers change between parts of them; leave out --kv-tiers", head.Arch)
	} else if c.Media != nil && head.SeesMedia() && c.Sparse.Part > 0 {
		return fmt.Errorf("%s sees pictures whole, and all keys of a prompt with them; leave out --sparse-prompts", head.Arch)
	} else if n := 1 + len(head.Start); len(head.Encoder) > 0 && c.Ctx > 0 && c.Ctx < n {
		return fmt.Errorf("a context of %d token, %s needs %d: for a text, and for what its answer begins with", c.Ctx,
			head.Arch, n)
	}
	if err := e.encoders.open(&c); err != nil {
		return err
	}
	if c.Media != nil {
		e.config.Media = c.Media
		e.mediaRows = rowStore{limit: cmp.Or(c.Media.Cache, defaultMediaCache), byHash: map[[sha256.Size]byte]*keptRows{}}
		if err := e.loadEncoders(); err != nil {
			return err
		}
	}
	survey, p, err := c.plan(e.file, budget.Free(), c.Device.Threads(), &e.noMTP)
	if err != nil {
		return err
	}
	if err := e.encoders.fits(survey.Config); err != nil {
		return err
	}
	e.config.MTP = survey.Config.Drafts
	for _, start := range survey.Config.Start {
		if n := survey.Config.NVocab; int(start) >= n {
			return fmt.Errorf("answers begin with token %d, and the vocabulary has %d", start, n)
		}
	}
	if e.banned, err = banned(e.file.GGUF, survey.Config.NVocab); err != nil {
		return err
	}
	if c.Shift {
		if err := shiftable(survey, cmp.Or(c.Ctx, survey.Config.NCtx)); err != nil {
			return err
		}
	}
	u, need := p.Use, p.Need
	if err := e.invite(cmp.Or(c.Until, context.Background()), survey, p); err != nil {
		return err
	}
	m, leave, err := e.loadWeights(cmp.Or(c.Until, context.Background()), survey, p, c.Progress)
	if err != nil {
		return err
	}
	defer leave()
	e.model = m
	if st, ok := e.model.Stream(); ok {
		e.streamed = st.Limit
	}

	free := budget.Free()
	free -= min(free, need.Activations+e.encodingRoom())
	if u.Residency == model.Mapped {
		// Half of what is left is for the file's pages: if the KV cache took all of it, each pass would read
		// the weights from disk.
		hot := min(e.file.Size(), (free-min(free, need.KV))/2)
		if in := survey.InPlace(); in > 0 && in <= free-min(free, need.KV) {
			hot = in
		}
		if e.hot, err = budget.Reserve(hotPurpose, hot); err != nil {
			return err
		}
		free -= hot
	}
	if u.Residency == model.Streamed && c.Shared && c.KVBytes == 0 {
		c.KVBytes = need.KV // the rest is the weights'
	}
	if free, err = e.least(cmp.Or(c.Until, context.Background()), free); err != nil {
		return err
	}
	kv, err := c.kvBytes(&u, need.Layout, free)
	if err != nil {
		return err
	}
	e.ctx, e.batch, e.seqs = u.Ctx, u.Batch, u.Sequences
	if c.Vectors {
		e.seqs = min(maxTexts, u.Batch)
	}
	if e.kv, err = kvcache.NewPool(budget, need.Layout, kv); err != nil {
		return err
	}
	if nodes := e.device.nodes(); len(nodes) > 1 {
		if err := e.kv.Place(nodes, e.model.KeptByHeads(len(nodes))); err != nil {
			return err
		}
	}
	e.tree = kvcache.NewTree(e.kv)
	e.rows, e.owners, e.logits = make([]int32, 0, u.MaxOut), make([]int, 0, u.MaxOut), make([][]float32, u.MaxOut)
	if e.runner, err = e.newRunner(e.model); err != nil {
		return err
	}
	if c.Shift {
		// Lack of memory may have shortened the context.
		if err := shiftable(survey, e.ctx); err != nil {
			return err
		}
		e.shifts = true
	}
	if e.mover, err = e.newMover(e.model); err != nil {
		return err
	}
	if e.model.Drafts() {
		e.mtp = &mtp{e: e}
	}
	if err := e.leads(cmp.Or(c.Until, context.Background())); err != nil {
		return err
	}
	if err := c.Device.join(e); err != nil {
		return err
	}
	e.taken.Store(e.bytes())
	return nil
}

// newRunner returns a runner for m on the engine's KV pool.
func (e *Engine) newRunner(m *model.Model) (*model.Runner, error) {
	rows := e.seqs
	if len(m.Config.Encoder) > 0 {
		rows *= 2 // what an encoder reads, and the answer
	}
	rows += maxBranches
	r, err := model.NewRunner(m, model.RunnerConfig{
		Pool: e.device.pool, Budget: e.device.budget,
		MaxTokens: e.batch, MaxSeqs: rows, MaxBlocks: (e.ctx + kvcache.BlockTokens - 1) / kvcache.BlockTokens, MaxOut: len(e.logits),
		Wait: func(f func()) {
			e.awaited = true
			e.device.aside(f)
		},
	})
	if err != nil {
		return nil, err
	}
	for i := range e.kv.Layout() {
		r.Batch().SetUnits(i, kernel.Units(e.kv.Units(i)))
	}
	return r, nil
}

// loadWeights loads the model as planned, in the device's turn, which the caller ends with leave. Memory that
// is reserved for the model serves as buffers meanwhile. It fails when ctx ends.
func (e *Engine) loadWeights(ctx context.Context, s *model.Survey, p Plan, progress func(done, total uint64)) (m *model.Model, leave func(), err error) {
	budget := e.device.budget
	if p.Need.Total() > budget.Free() {
		return nil, nil, e.config.unfit(e.file, budget, e.device.Threads(), p)
	}
	held, err := hold(budget, p.Use, p.Need)
	if err != nil {
		return nil, nil, err
	}
	defer held.release()
	leave = e.device.enter()
	o := model.Options{
		Pack: e.device.pack, Budget: budget, Residency: p.Use.Residency, Spare: streamable(budget.Free()), Lent: held.bytes(),
		Nodes: e.device.nodes(), Shared: e.device.shared, Progress: progress, Until: ctx,
	}
	if e.config.Early {
		o.Early = e.device.enter
	}
	m, err = s.Load(o)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return m, leave, nil
}

// newMover returns a mover of keys and values, or nil if the configuration needs none.
func (e *Engine) newMover(m *model.Model) (*model.Mover, error) {
	if !e.shifts && len(e.config.Tiers) == 0 {
		return nil, nil
	}
	return m.NewMover(e.shifts)
}

// Model returns the model.
func (e *Engine) Model() *model.Model { return e.model }

// reads reports whether passes read weights from disk: they are streamed, and not all fit in memory.
func (e *Engine) reads() bool {
	st, ok := e.model.Stream()
	return ok && st.Pinned+st.Cache < st.Bytes
}

// MTP returns nil if an MTP layer of the model drafts, or was not asked for, else the reason why none does.
func (e *Engine) MTP() error { return e.noMTP }

// KV returns the types of keys and values.
func (e *Engine) KV() kvcache.Types { return e.kvTypes }

// KVName names these types, or those of each tier.
func (e *Engine) KVName() string {
	if len(e.kvTiers) > 0 {
		return e.kvTiers.String()
	}
	return e.kvTypes.String()
}

// Arithmetic names what results depend on besides the weights: the types of keys and values, activations that have
// other bits than by default, and prompts that read some of their keys.
func (e *Engine) Arithmetic() string {
	name := e.KVName()
	if e.config.Fine {
		name += "-a16"
	}
	if s := e.config.Sparse; s.Part > 0 {
		name += "-s" + s.String()
	}
	return name
}

// Recurrent reports whether sequences have recurrent state, which cannot be rolled back to any position:
// after a rejected draft, the accepted ones before it are evaluated again.
func (e *Engine) Recurrent() bool { return e.kv.Layout().Recurrent() }

// Ctx returns the maximum number of positions of a sequence.
func (e *Engine) Ctx() int { return e.ctx }

// Batch returns the maximum number of tokens of a pass.
func (e *Engine) Batch() int { return e.batch }

// Close releases the engine's resources; the device stays open. Sequences must not be used afterwards.
// Closing again is a no-op.
func (e *Engine) Close() error {
	e.dismiss()
	e.device.leave(e)
	if e.hot != nil {
		e.hot.Release()
	}
	if e.kv != nil {
		e.kv.Close()
	}
	if e.runner != nil {
		e.runner.Close()
	}
	if e.mover != nil {
		e.mover.Close()
	}
	for _, a := range e.adapters {
		if a != nil {
			a.Close()
		}
	}
	if e.model != nil {
		e.model.Close()
	}
	e.mediaRows.trim(0)
	e.encoders.close()
	if m := e.config.Media; m != nil && m.Projector != nil {
		m.Projector.Close()
	}
	return e.file.Close()
}
