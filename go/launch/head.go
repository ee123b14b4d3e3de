package launch

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Head is a model without its weights, with the head of the model that drafts for it. Its files stay open
// until it is closed or loaded: so tokenizer and weights come from the same file even if the path is replaced
// meanwhile.
type Head struct {
	Path      string
	Settings  Settings // may be changed until the model is loaded, except those of drafts
	File      *model.File
	Config    *model.Config
	Tokenizer *tokenizer.Tokenizer // nil: it was not needed

	projector string // the path of encoders that belong to the model; empty: there are none
	unfitting error  // why those beside the model do not
	files     *Files // that opens them

	drafter *Head // the draft model; nil: there is none, or it is layers, which are part of File
	joined  bool  // File has layers that were trained to draft for it
}

// ReadHead reads the head of the model called name.
func (f *Files) ReadHead(name string, s Settings) (*Head, error) {
	return f.read(name, s, true)
}

// Survey is ReadHead without the vocabulary, for lists of models. It is read where something that drafts must
// have the same.
func (f *Files) Survey(name string, s Settings) (*Head, error) {
	return f.read(name, s, false)
}

func (f *Files) read(name string, s Settings, text bool) (*Head, error) {
	file, err := f.Open(name, s.Quantize)
	if err != nil {
		return nil, err
	}
	if err := s.Overrides.Apply(file.GGUF); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f.newHead(name, file, s, text)
}

// NewHead is Survey for a file that is open already, of which it takes ownership.
func (f *Files) NewHead(name string, file *model.File, s Settings) (*Head, error) {
	return f.newHead(name, file, s, false)
}

// HeadOf is ReadHead for a file that is open already, of which it takes ownership.
func (f *Files) HeadOf(name string, file *model.File, s Settings) (*Head, error) {
	return f.newHead(name, file, s, true)
}

func (f *Files) newHead(name string, file *model.File, s Settings, text bool) (_ *Head, err error) {
	h := &Head{Path: name, Settings: s, File: file}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.Config, err = file.Config(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if text {
		if err = h.readTokenizer(); err != nil {
			return nil, err
		}
	}
	if err = f.readDrafter(h); err != nil {
		return nil, err
	}
	if err = f.readProjector(h); err != nil {
		return nil, err
	}
	return h, nil
}

// readTokenizer reads the vocabulary, unless it was read before.
func (h *Head) readTokenizer() (err error) {
	if h.Tokenizer != nil {
		return nil
	}
	tok, err := tokenizer.New(h.File.GGUF)
	if err != nil {
		return fmt.Errorf("%s: %w", h.Path, err)
	}
	// The reverse is common: embeddings are padded.
	if n := tok.Len(); n > h.Config.NVocab {
		return fmt.Errorf("%s: the vocabulary has %d tokens and token_embd.weight %d rows, want a row for each; "+
			"convert the model again", h.Path, n, h.Config.NVocab)
	}
	h.Tokenizer = tok
	return nil
}

// Close closes the files, those that were loaded excepted: they are the engine's.
func (h *Head) Close() error {
	if h.drafter != nil {
		h.drafter.Close()
	}
	return h.File.Close()
}

// EngineConfig returns the configuration of the model's engine, without a device.
func (h *Head) EngineConfig() engine.Config {
	c := h.Settings.EngineConfig(h.Config)
	c.MTP = h.ownLayersDraft()
	return c
}

// EngineConfig returns the configuration of the engine of a model alone, without a device.
func (s *Settings) EngineConfig(m *model.Config) engine.Config {
	c := engine.Config{
		Ctx: s.Context(m), Sequences: s.Sequences, Batch: s.Batch,
		KV: s.KV, Tiers: s.Tiers, Sparse: s.Sparse, Fine: s.Fine, Residency: s.Residency, Shift: s.Shift, Vectors: s.Vectors,
		Ranks: s.Ranks,
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	switch {
	case !s.Shared:
		c.Batch = min(c.Batch, c.Ctx)
	case m.BothWays: // its keys and values are there for a pass
		c.Ctx, c.Vectors, c.Sequences, c.Shift = within(max(s.Ctx, 0), m), true, 1, false
	default:
		c.Ctx, c.Shared, c.KVBytes = within(max(s.Ctx, 0), m), true, s.KVBytes
	}
	return c
}

// Need returns the memory that the model, its projector and its draft model take at least on a device where so many bytes are
// free, or an error that says why that is too little.
func (h *Head) Need(d *engine.Device, room uint64) (uint64, error) {
	limit, reason := d.Budget().Limit()
	c := h.EngineConfig()
	c.Device = d // with whose models it may have weights in common
	drafts, err := h.drafterNeeds(c, mem.NewBudget(room, reason), d.Threads())
	if err != nil {
		return 0, err
	}
	eyes, err := h.openProjector(Events{})
	if err != nil {
		return 0, err
	}
	if eyes != nil {
		defer eyes.Close()
		c.Media = h.media(eyes)
	}
	p, err := engine.NewPlan(h.File, mem.NewBudget(room-min(room, drafts), reason), d.Threads(), c)
	var fit *engine.FitError
	if errors.As(err, &fit) {
		fit.Limit = limit // and not only what is free of it
	}
	if err != nil {
		return 0, h.beside(fmt.Errorf("%s: %w", h.Path, err), drafts)
	}
	return p.Need.Total() + drafts, nil
}

// Fits returns why the model at path cannot be run with these settings, as far as its head says. Adapters, and
// layers that draft, are run with another model.
func (f *Files) Fits(path string, s Settings, d DeviceSettings) error {
	file, err := f.Open(path, s.Quantize)
	if err != nil {
		return err
	}
	defer file.Close()
	if kind, _ := file.GGUF.Str("general.type"); kind == "adapter" || file.IsHead() {
		return nil
	}
	if _, err := file.GGUF.Projector(); err == nil {
		return nil
	}
	cfg, err := file.Config()
	if err != nil {
		return err
	}
	if _, err := tokenizer.New(file.GGUF); err != nil {
		return err
	}
	c, err := d.Config()
	if err != nil {
		return err
	}
	_, err = engine.NewPlan(file, c.Budget, c.Threads, s.EngineConfig(cfg))
	return err
}
