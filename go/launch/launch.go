// Package launch opens models: a model's file with its tokenizer, the engine that runs it, and the parts
// beside it: what drafts for it, and its adapters. Settings are a plain struct; how a program comes by them is
// its own affair.
//
// A model is opened in two steps, since the second may take minutes: ReadHead reads what says whether it can be
// run and with what, and Head.Open loads it. Open does both.
package launch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/reading"
)

// DefaultCtx is the context of texts where the settings leave it open: the model's own may need more memory
// than its weights.
const DefaultCtx = 4096

// DefaultBatch is enough tokens in a pass for every kernel to reach full speed.
const DefaultBatch = 512

// Settings say how a model is opened, and what is opened beside it. The zero value is the model alone, for one
// text.
type Settings struct {
	Ctx       int           // positions of a text; 0: the model's own; below: the same, at most DefaultCtx
	Batch     int           // maximum tokens of a pass; 0: DefaultBatch
	KV        kvcache.Types // in which keys and values are stored
	Tiers     kvcache.Tiers // the same by age; nil: all as KV says
	Sparse    model.Sparse  // which keys prompts read
	Fine      bool          // activations have 16 bits instead of 8 where weights are quantized
	Residency model.Residency
	Vectors   bool // the model is asked for vectors of texts, not for logits
	Shift     bool // a text that reaches the end of the context loses older tokens and goes on
	Sequences int  // texts at a time; 0: one

	// Shared: the texts share one pool of keys and values, of KVBytes. A Ctx of 0 is then the model's own as far
	// as memory allows.
	Shared  bool
	KVBytes uint64 // 0: half of what is free beside the model

	Overrides Overrides // of the file's metadata
	Quantize  string    // the type that weights of checkpoints are converted to; empty: they stay as they are

	Draft    Draft
	Adapters []Adapter

	Projector     string            // encoders of pictures and sounds: a file, or the folder of a checkpoint; empty: that beside the model
	ProjectorType model.EncoderType // that the weights of their layers have in memory
	NoProjector   bool              // there is none, even if one is named or beside the model
	Media         reading.Limits

	Ranks *engine.Ranks // among which the model is divided; nil: it is not
}

// A Draft is what guesses how a model's texts go on, to verify several tokens in a pass.
type Draft struct {
	Sources draft.Set // those that may be used
	Path    string    // of a smaller model, or of layers that were trained for the model; empty: there is none
}

// An Adapter is a LoRA adapter.
type Adapter struct {
	Name, Path string
	Scale      float32
}

// Context returns the positions of a text alone.
func (s *Settings) Context(m *model.Config) int {
	switch {
	case s.Ctx < 0:
		return min(m.NCtx, DefaultCtx)
	case s.Ctx == 0:
		return m.NCtx
	}
	return within(s.Ctx, m)
}

// within limits a context to the positions that a model has embeddings of, if it has some.
func within(ctx int, m *model.Config) int {
	if m.Positions {
		return min(ctx, m.NCtx)
	}
	return ctx
}

// Events are called while a model is opened and, about drafts, as long as it is open. Each may be nil.
type Events struct {
	Progress func(done, total uint64) // bytes of the file that are loaded
	Note     func(line string)        // what is to be known of it
	Failed   func(error)              // the draft model failed, and does not draft for a while; nil: Note says so
}

func (e Events) note(format string, args ...any) {
	if e.Note != nil {
		e.Note(fmt.Sprintf(format, args...))
	}
}

func (e Events) failed(err error) {
	if e.Failed != nil {
		e.Failed(err)
		return
	}
	e.note("the draft model failed, and does not draft for a while: %v", err)
}

// A Model is an open model. What its engine runs is the caller's to start and to end.
type Model struct {
	Head     *Head
	Engine   *engine.Engine
	Drafts   *engine.Engine         // the draft model's; nil: there is none
	Adapters []engine.ScaledAdapter // those of the settings, in their order
	Device   *engine.Device
	Took     time.Duration // to load

	Projector *reading.Projector // what the model sees and hears with; nil: text only

	alone bool // the device is its own
}

// Open opens the model called name, a file, a folder with a checkpoint or an embedded demo model, on a device
// of its own.
func Open(name string, s Settings, d DeviceSettings, e Events) (*Model, error) {
	var files Files
	h, err := files.ReadHead(name, s)
	if err != nil {
		return nil, err
	}
	return h.OpenAlone(d, e)
}

// OpenAlone loads the model on a device of its own, which is closed with it. The first pass may begin before all
// is loaded. It takes ownership of h.
func (h *Head) OpenAlone(d DeviceSettings, e Events) (*Model, error) {
	device, err := d.Open()
	if err != nil {
		h.Close()
		return nil, err
	}
	m, err := h.open(context.Background(), device, e, true)
	if err != nil {
		device.Close()
		return nil, err
	}
	m.alone = true
	return m, nil
}

// Open loads the model on a device, unless ctx ends. It takes ownership of h.
func (h *Head) Open(ctx context.Context, d *engine.Device, e Events) (*Model, error) {
	return h.open(ctx, d, e, false)
}

// open opens the parts of a model one after the other. The memory of those that come after the engine is set
// aside before, since an engine may take all that is free.
func (h *Head) open(ctx context.Context, d *engine.Device, e Events, early bool) (_ *Model, err error) {
	m := &Model{Head: h, Device: d}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	c := h.EngineConfig()
	c.Device, c.Until = d, ctx
	aside, drafts, err := h.setAside(c)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	eyes, err := h.openProjector(e)
	if err != nil {
		return nil, err
	}
	if eyes != nil {
		c.Media = h.media(eyes)
	}
	own := c
	own.Progress, own.Early = e.Progress, early
	m.Engine, err = engine.New(h.File, own)
	m.Took = time.Since(start)
	aside.Release()
	if err != nil {
		return nil, h.beside(err, drafts)
	}
	if why := h.File.Unchecked(); why != "" {
		e.note("%s: its sha256 was not compared: %s", h.Path, why)
	}
	if m.Projector, err = reading.NewProjector(m.Engine, eyes, d.Budget(), h.Settings.Media); err != nil {
		return nil, fmt.Errorf("%s: %w", h.projector, err)
	}
	c.Media = nil // which is not the draft model's
	if m.Drafts, err = h.openDrafter(m.Engine, c, e); err != nil {
		return nil, err
	}
	if err = m.openAdapters(); err != nil {
		return nil, err
	}
	return m, nil
}

// openAdapters opens the adapters that the settings name.
func (m *Model) openAdapters() error {
	for _, s := range m.Head.Settings.Adapters {
		a, err := m.Engine.OpenAdapter(s.Path)
		if err != nil {
			return err
		}
		a.Name = s.Name
		m.Adapters = append(m.Adapters, engine.ScaledAdapter{Adapter: a, Scale: s.Scale})
	}
	return nil
}

// NewSequence returns a new text of the model alone, with its adapters.
func (m *Model) NewSequence() (*engine.Sequence, error) {
	s := m.Engine.NewSequence()
	if err := s.SetAdapters(m.Adapters); err != nil {
		s.Close()
		return nil, fmt.Errorf("--lora: %w", err)
	}
	return s, nil
}

// Embed is the Engine's Embed with the model's adapters.
func (m *Model) Embed(ctx context.Context, texts []engine.Text, pooling nn.Pooling, visit func(text int, vectors [][]float32) error) error {
	read := slices.Clone(texts)
	for i := range read {
		read[i].Adapters = m.Adapters
	}
	return m.Engine.Embed(ctx, read, pooling, visit)
}

// Warning says that the context is longer than the texts that the model was trained with, or was to be longer
// than it can be; empty where it is not, or where metadata in place of the file's may be why.
func (m *Model) Warning() string {
	if n := m.Head.Settings.Ctx; n > within(n, m.Head.Config) {
		return fmt.Sprintf("the context has %d tokens, not the %d that were asked for: the model has embeddings of no more positions",
			m.Head.Config.NCtx, n)
	}
	if m.Engine.Ctx() <= m.Head.Config.NCtx || len(m.Head.Settings.Overrides) > 0 {
		return ""
	}
	return fmt.Sprintf("the context has %d tokens and the model was trained with %d: what it says behind them "+
		"may make no sense; --rope-scaling yarn with --rope-scale makes it longer", m.Engine.Ctx(), m.Head.Config.NCtx)
}

// Close closes the parts in the reverse order, and the device, if it is the model's own.
func (m *Model) Close() error {
	if m.Drafts != nil {
		m.Drafts.Close()
	}
	var err error
	if m.Engine != nil {
		err = m.Engine.Close()
	}
	m.Head.Close()
	if m.alone {
		m.Device.Close()
	}
	return err
}
