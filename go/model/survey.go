package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
)

// Config is the configuration of a model.
type Config = nn.Config

// A Survey is everything that a model needs, determined before any of it is allocated: its configuration,
// every tensor, every operation. All defects of a file, except non-finite values, are errors here.
type Survey struct {
	Config *Config
	Layout kvcache.Layout // state of a sequence

	file    *File
	kv      kernel.KVTypes
	tiers   []nn.Tier
	make    func(w *weights) (*nn.Program, error) // the program of these weights
	unknown func(w *weights) error                // an error if they lack a tensor of the file that matters
	short   bool                                  // matrices of layers that are floats become Q8_0
	rows    bool                                  // a head's matrices stay in rows, as training changes them
	ranks   Ranks                                 // among which the model is divided
	finds   [3]*find                              // for packed, mapped and streamed weights: created on first use
}

// A find is a survey for one residency.
type find struct {
	weights *weights
	program *nn.Program // without memory
}

// NewSurvey surveys the model in f, with keys and values of type kv, for sequences of up to ctx positions; 0
// is the training context. Keys and values of full-attention layers may be in tiers by age. Errors name the
// key or the tensor, not the file.
func NewSurvey(f *File, kv kernel.KVTypes, ctx int, tiers ...nn.Tier) (*Survey, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, err
	}
	cfg = cfg.For(ctx)
	if cfg.NSide > 0 && cfg.Ctx > cfg.NCtx {
		return nil, fmt.Errorf("a context of %d tokens: the model has embeddings of %d positions for a text, and as many for its answer; give a shorter one", cfg.Ctx, cfg.NSide)
	}
	if cfg.Positions && cfg.Ctx > cfg.NCtx {
		return nil, fmt.Errorf("a context of %d tokens: the model has embeddings of %d positions; give a shorter one", cfg.Ctx, cfg.NCtx)
	}
	a, err := arch.Lookup(cfg.Arch)
	if err != nil {
		return nil, err
	}
	if len(tiers) > 0 && cfg.OnePass() {
		return nil, fmt.Errorf("%s reads a text as a whole: its keys and values have no age, and cannot be in tiers", cfg.Arch)
	}
	s := of(cfg, a, f, kv, tiers)
	packed, err := s.find(Packed)
	if err != nil {
		return nil, err
	}
	s.Layout = layout(packed.program)
	if len(tiers) > 0 && s.Layout.Room(1, 1<<30) == 1<<30 {
		return nil, fmt.Errorf("no layer of %s sees every position: there is nothing to keep in tiers", cfg.Arch)
	}
	return s, nil
}

// Split returns a survey of this rank's part of the same model.
func (s *Survey) Split(r Ranks) (*Survey, error) {
	if r.Group == nil || r.Group.Count() == 1 {
		return s, nil
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	if s.file.Remote() {
		return nil, fmt.Errorf("a model cannot be divided among ranks: %w", errRemote)
	}
	if s.file.Packed() {
		return nil, fmt.Errorf("a packed file cannot be divided among ranks; give the one that it was made of")
	}
	if r.Layers {
		if err := canStage(s.Config); err != nil {
			return nil, err
		}
	}
	mine := *s
	mine.ranks, mine.finds = r, [3]*find{}
	packed, err := mine.find(Packed)
	if err != nil {
		return nil, err
	}
	mine.Layout = layout(packed.program)
	return &mine, nil
}

// of returns a survey that has found nothing yet.
func of(cfg *Config, a arch.Arch, f *File, kv kernel.KVTypes, tiers []nn.Tier) *Survey {
	return &Survey{
		Config: cfg, file: f, kv: kv, tiers: tiers,
		make: func(w *weights) (*nn.Program, error) {
			p, err := a.Build(cfg, w, kv, tiers...)
			if err == nil && cfg.Fine {
				finer(p)
			}
			return p, err
		},
		unknown: func(w *weights) error { return w.unknown(cfg) },
	}
}

// with returns a survey of the same model with another configuration.
func (s *Survey) with(change func(c *Config)) (*Survey, error) {
	cfg := *s.Config
	change(&cfg)
	a, err := arch.Lookup(cfg.Arch)
	if err != nil {
		return nil, err
	}
	n := of(&cfg, a, s.file, s.kv, s.tiers)
	n.ranks = s.ranks
	packed, err := n.find(Packed)
	if err != nil {
		return nil, err
	}
	n.Layout = layout(packed.program)
	return n, nil
}

// Drafting returns a survey of the same model with its first MTP layer or its draft head enabled. The error
// says why there is none; the model can run without.
func (s *Survey) Drafting() (*Survey, error) {
	if err := s.Config.CanDraft(); err != nil {
		return nil, err
	}
	return s.with(func(c *Config) { c.Drafts = true })
}

// Finer returns a survey of the same model, whose products with quantized weights take activations of 16 bits instead of 8.
// That is before Drafting and Split.
func (s *Survey) Finer() (*Survey, error) {
	return s.with(func(c *Config) { c.Fine = true })
}

// finer gives all activations of 8 bits 8 more.
func finer(p *nn.Program) {
	for i := range p.Bufs {
		p.Bufs[i].Fine = p.Bufs[i].Kind.Eight()
	}
}

// Seeing returns a survey of the same model, whose tokens may bring rows of pictures and sounds.
func (s *Survey) Seeing() (*Survey, error) {
	if !s.Config.CanSee() {
		return nil, fmt.Errorf("%s reads texts as a whole, and takes no pictures or sounds", s.Config.Arch)
	}
	return s.with(func(c *Config) { c.Media = true })
}

func index(r Residency) int {
	switch r {
	case Mapped:
		return 1
	case Streamed:
		return 2
	}
	return 0
}

// find returns the survey for a residency; Auto counts as Packed.
func (s *Survey) find(r Residency) (*find, error) {
	i := index(r)
	if s.finds[i] != nil {
		return s.finds[i], nil
	}
	w := newWeights(s.file, s.Config.Arch, r != Mapped)
	w.short, w.headRows = s.short, s.rows && r == Mapped
	if r == Streamed {
		packed, err := s.find(Packed)
		if err != nil {
			return nil, err
		}
		w.stream = streamable(packed)
	}
	if s.ranks.Group != nil {
		whole := newWeights(s.file, s.Config.Arch, r != Mapped)
		whole.short = s.short
		p, err := s.make(whole)
		if err != nil {
			return nil, err
		}
		_, w.panels = s.ranks.split(p, whole)
	}
	p, err := s.build(w)
	if err != nil {
		return nil, err
	}
	if w.lacks != "" {
		return nil, fmt.Errorf("the packed file has no panels of %q as they are needed here; pack the model again", w.lacks)
	}
	if err := s.unknown(w); err != nil {
		return nil, err
	}
	if err := checkPlans(p, w); err != nil {
		return nil, err
	}
	s.finds[i] = &find{w, p}
	return s.finds[i], nil
}

// build returns the program of these weights.
func (s *Survey) build(w *weights) (*nn.Program, error) {
	p, err := s.make(w)
	if err != nil {
		return nil, err
	}
	w.undivided = p
	if s.ranks.Group != nil {
		p, _ = s.ranks.split(p, w)
	}
	w.foresee(p)
	return p, nil
}

// InPlace returns the bytes of a packed file, which are used in place; 0 for a plain one.
func (s *Survey) InPlace() uint64 {
	if !s.file.Packed() || s.file.Remote() {
		return 0
	}
	return s.file.Size()
}

// PackedOnly reports whether weights can be nowhere but packed in memory, as those of a file that is elsewhere.
func (s *Survey) PackedOnly() bool { return s.file.Remote() }

// take returns the weights of this residency with their ownership, to be bound to memory: the next call
// creates new ones.
func (s *Survey) take(r Residency) (*weights, error) {
	f, err := s.find(r)
	if err != nil {
		return nil, err
	}
	s.finds[index(r)] = nil
	return f.weights, nil
}
