// Package engine runs models over sequences of tokens. An Engine is one model: it
// owns the weights, the KV cache and the buffers, and every change to them. A Device is
// the threads and the memory that engines share. The package deals in token ids; text
// is left to the layers above.
//
// A token's logits do not depend on which other sequences share a pass, on how
// a prompt was cut, on the number of threads, or on where the weights lie.
//
// An Engine and its sequences are not safe for concurrent use.
package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// ErrTooLong reports tokens that do not fit in the context.
var ErrTooLong = errors.New("the context is too small")

// ErrDamaged reports that the model's file was cut or cannot be read any more. All that
// the engine is asked for fails with it from then on.
var ErrDamaged = model.ErrDamaged

const (
	defaultBatch = 512
	// maxOut is how many rows of logits are computed at a time. More would cost
	// half a megabyte each with a vocabulary of 128k; at this many, reading the
	// output matrix no longer decides the time.
	maxOut = 32
	// maxContext bounds the context that can be configured: positions are 32-bit.
	maxContext = 1 << 28
)

// Config says how to open a model. The Device is required; other zero values are
// replaced by defaults that depend on the model and the device.
type Config struct {
	Device    *Device
	Ctx       int           // positions of a sequence; 0: the model's own limit, as far as memory allows
	Sequences int           // at a time; 0: one
	Shared    bool          // sequences share one KV pool; else each has space for Ctx positions
	KVBytes   uint64        // size of the shared pool; 0: half of what is free beside the model
	Batch     int           // maximum tokens of a pass; 0: 512
	KV        kvcache.Types // in which keys and values are stored
	Residency model.Residency
	Vectors   bool                     // the model is asked for vectors of texts, not for logits; one sequence then has Ctx positions
	Progress  func(done, total uint64) // bytes of the file read; nil: silent
}

// An Engine is a loaded model, ready to run.
type Engine struct {
	file   *model.File
	device *Device
	model  *model.Model
	runner *model.Runner
	kv     *kvcache.Pool
	tree   *kvcache.Tree // cached state of sequences that have ended
	ctx    int
	batch  int
	seqs   int              // maximum of a pass
	hot    *mem.Reservation // room for pages of mapped weights; nil if they are packed
	banned []int32

	adapters []*model.Adapter // by number; nil where there is none

	item [1]Item // scratch of passes over a single sequence
	ids  []int32 // scratch of the same

	// Scratch of heads: rows as the model.Runner counts them, their owners, the logits.
	rows   []int32
	owners []int
	parts  []part
	logits [][]float32

	kvTypes kvcache.Types
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
		return nil, err
	}
	e := &Engine{file: file, device: c.Device, kvTypes: c.KV}
	if err := e.load(c); err != nil {
		e.Close()
		return nil, fmt.Errorf("%s: %w", file.Paths[0], err)
	}
	return e, nil
}

// fill replaces zero values, and refuses values out of range.
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
	for _, t := range []kvcache.Type{c.KV.K, c.KV.V} {
		if _, ok := kvTypes[t]; !ok {
			return fmt.Errorf("KV %v is not supported", t)
		}
	}
	if c.Sequences == 0 {
		c.Sequences = 1
	}
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	return nil
}

var kvTypes = map[kvcache.Type]kernel.KVType{
	kvcache.F16: kernel.KVF16, kvcache.F32: kernel.KVF32, kvcache.BF16: kernel.KVBF16,
	kvcache.I16: kernel.KVI16, kvcache.Q8: kernel.KVQ8, kvcache.Q4: kernel.KVQ4,
}

// KVTypes returns c.KV as the kernels' types.
func (c *Config) KVTypes() kernel.KVTypes {
	return kernel.KVTypes{K: kvTypes[c.KV.K], V: kvTypes[c.KV.V]}
}

func (e *Engine) load(c Config) error {
	// Sizes first: a model that cannot run is refused before its weights are read.
	budget := c.Device.budget
	if head, err := e.file.Config(); err != nil {
		return err
	} else if head.BothWays && !c.Vectors {
		return fmt.Errorf("%s %w", head.Arch, ErrBothWays)
	} else if len(head.Encoder) > 0 && c.Vectors {
		return fmt.Errorf("%s %w", head.Arch, ErrAnswers)
	} else if len(head.Encoder) > 0 && c.Ctx == 1 {
		return fmt.Errorf("a context of 1 token, %s needs 2: for a text, and for what its answer begins with", head.Arch)
	}
	survey, err := model.NewSurvey(e.file, c.KVTypes(), c.Ctx)
	if err != nil {
		return err
	}
	if start, n := survey.Config.Start, survey.Config.NVocab; int(start) >= n {
		return fmt.Errorf("answers begin with token %d, and the vocabulary has %d", start, n)
	}
	if e.banned, err = banned(e.file.GGUF, survey.Config.NVocab); err != nil {
		return err
	}
	p, err := c.place(survey, budget.Free(), c.Device.Threads())
	if err != nil {
		return err
	}
	u, need := p.Use, p.Need
	if need.Total() > budget.Free() {
		return c.unfit(e.file, budget, c.Device.Threads(), p)
	}
	held, err := hold(budget, u, need)
	if err != nil {
		return err
	}
	defer held.release()
	leave := c.Device.enter()
	defer leave()
	e.model, err = survey.Load(model.Options{
		Pack: c.Device.pack, Budget: budget, Residency: u.Residency, Lent: held.bytes(), Progress: c.Progress,
	})
	if err != nil {
		return err
	}
	held.release()

	free := budget.Free()
	free -= min(free, need.Activations)
	if u.Residency == model.Mapped {
		// Half of what is left for the file's pages: with all of it for keys and values, each
		// pass would read the weights from the disk.
		hot := min(e.file.Size(), (free-min(free, need.KV))/2)
		if e.hot, err = budget.Reserve("pages of mapped weights", hot); err != nil {
			return err
		}
		free -= hot
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
	e.tree = kvcache.NewTree(e.kv)
	rows := e.seqs
	if len(e.model.Config.Encoder) > 0 {
		rows *= 2 // what an encoder reads, and the answer
	}
	e.runner, err = model.NewRunner(e.model, model.RunnerConfig{
		Pool: c.Device.pool, Budget: budget,
		MaxTokens: u.Batch, MaxSeqs: rows, MaxBlocks: (u.Ctx + kvcache.BlockTokens - 1) / kvcache.BlockTokens, MaxOut: u.MaxOut,
	})
	if err != nil {
		return err
	}
	for i, g := range need.Layout {
		e.runner.Batch().SetState(i, e.kv.Memory(i), g.Bytes)
	}
	if err := c.Device.join(e); err != nil {
		return err
	}
	e.rows, e.owners, e.logits = make([]int32, 0, u.MaxOut), make([]int, 0, u.MaxOut), make([][]float32, u.MaxOut)
	return nil
}

// Model returns the model.
func (e *Engine) Model() *model.Model { return e.model }

// KV returns the types in which keys and values are stored.
func (e *Engine) KV() kvcache.Types { return e.kvTypes }

// Ctx returns the maximum number of positions of a sequence.
func (e *Engine) Ctx() int { return e.ctx }

// Batch returns the maximum number of tokens of a pass.
func (e *Engine) Batch() int { return e.batch }

// Close releases the engine's resources; the device stays open. Sequences must not be
// used afterwards. Closing again is a no-op.
func (e *Engine) Close() error {
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
	for _, a := range e.adapters {
		if a != nil {
			a.Close()
		}
	}
	if e.model != nil {
		e.model.Close()
	}
	return e.file.Close()
}
