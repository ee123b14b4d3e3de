package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model/arch"
)

// Config is the sizes and constants of a model.
type Config = arch.Config

// A Survey is what a model needs, determined before any of it is allocated: its
// configuration, every tensor, every operation. All faults of a file, except values that
// are not finite, are errors here.
type Survey struct {
	Config *Config
	Layout kvcache.Layout // state of a sequence

	file  *File
	arch  arch.Arch
	kv    kernel.KVTypes
	finds [2]*find // for packed and for mapped weights: created on first use
}

// A find is a survey for one residency.
type find struct {
	weights *weights
	program *arch.Program // without memory
}

// NewSurvey surveys the model in f, whose keys and values are to be kept as kv
// says, for sequences of up to ctx positions; 0 is as many as the model was trained for.
// Errors name the key or the tensor, not the file.
func NewSurvey(f *File, kv kernel.KVTypes, ctx int) (*Survey, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, err
	}
	cfg = cfg.For(ctx)
	if cfg.Positions && cfg.Ctx > cfg.NCtx {
		return nil, fmt.Errorf("a context of %d tokens: the model has embeddings of %d positions; give a shorter one", cfg.Ctx, cfg.NCtx)
	}
	a, err := arch.Lookup(cfg.Arch)
	if err != nil {
		return nil, err
	}
	s := &Survey{Config: cfg, file: f, arch: a, kv: kv}
	packed, err := s.find(Packed)
	if err != nil {
		return nil, err
	}
	s.Layout = layout(packed.program)
	return s, nil
}

func index(r Residency) int {
	if r == Mapped {
		return 1
	}
	return 0
}

// find returns what there is for weights of this residency, of which Auto
// counts as Packed.
func (s *Survey) find(r Residency) (*find, error) {
	i := index(r)
	if s.finds[i] != nil {
		return s.finds[i], nil
	}
	w := newWeights(s.file.GGUF, s.Config.Arch, r != Mapped)
	p, err := s.arch.Build(s.Config, w, s.kv)
	if err != nil {
		return nil, err
	}
	if err := w.unknown(s.Config); err != nil {
		return nil, err
	}
	ps, err := newPlans(p) // checks every operation
	if err != nil {
		return nil, err
	}
	ps.close()
	s.finds[i] = &find{w, p}
	return s.finds[i], nil
}

// take returns the weights of this residency and hands over ownership, so that they can
// be bound to memory: the next call creates new ones.
func (s *Survey) take(r Residency) (*weights, error) {
	f, err := s.find(r)
	if err != nil {
		return nil, err
	}
	s.finds[index(r)] = nil
	return f.weights, nil
}
