package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/telemetry"
	"github.com/quern-llm/quern/go/verify"
)

// stay is the least time that a model is in memory while others wait for it.
const stay = 2 * time.Second

// A shared is the memory of a device as models share it.
type shared struct{ *engine.Device }

// Free implements models.Memory.
func (s shared) Free() uint64 { return s.Budget().Free() }

// A loader loads models.
type loader struct {
	*serveFlags
	device  *engine.Device
	metrics *telemetry.Metrics
	tracing *telemetry.Tracing
	logs    zerolog.Logger
	stderr  io.Writer
}

// sources returns the models of the start as what the server loads, again if need be: the first time from the heads that
// were read.
func (l *loader) sources(all fleet) []server.Source {
	var list []server.Source
	for i, s := range all {
		next := s
		again := func() (*served, error) {
			if s := next; s != nil {
				next = nil // its file is the engine's from now on
				return s, nil
			}
			return l.read(s.names, s.path, i == 0)
		}
		src := server.Source{Tags: s.tags, Path: s.path, Info: infoOf(s.head.file, s.head.cfg)}
		src.Names, src.Starting, src.Load = s.names, true, l.loads(func() (*served, error) {
			r, err := again()
			if err == nil {
				r.tags = s.tags
			}
			return r, err
		})
		src.Need = func(room uint64) (uint64, error) {
			if next != nil { // at the start, what does not fit is found beside the others
				return 0, nil
			}
			r, err := l.read(s.names, s.path, i == 0)
			if err != nil {
				return 0, err
			}
			defer r.head.file.Close()
			return l.need(r, room)
		}
		list = append(list, src)
	}
	return list
}

// load loads the models of the start in order.
func (l *loader) load(all fleet, api *server.Server) error {
	aside, err := l.setAside(all)
	if err != nil {
		return err
	}
	for i, s := range all {
		if i < len(aside) {
			aside[i].Release()
		}
		if err := api.Load(s.names[0]); err != nil {
			var why *models.LoadError
			if errors.As(err, &why) {
				err = why.Err // which names the file
			}
			return err
		}
	}
	return nil
}

// setAside reserves the needs of each of several models before the first is loaded:
// otherwise the keys and values of the first would take the memory of the others, and a
// model that does not fit beside them would be found late.
func (l *loader) setAside(all fleet) ([]*mem.Reservation, error) {
	if len(all) < 2 {
		return nil, nil // a single model may use the whole budget
	}
	var aside []*mem.Reservation
	for _, s := range all {
		bytes, err := l.least(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		r, err := l.device.Budget().Reserve("weights, keys and values beside other models", bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		aside = append(aside, r)
	}
	return aside, nil
}

// least returns the memory that a model needs for full speed or, if that is too much
// and the flags permit it, the minimum to run.
func (l *loader) least(s *served) (uint64, error) {
	c := s.config
	if c.Sequences = 1; c.Ctx == 0 {
		c.Ctx = min(s.head.cfg.NCtx, defaultCtx)
	}
	p, err := engine.NewPlan(s.head.file, l.device.Budget(), l.device.Threads(), c)
	if err != nil || !s.first {
		return p.Need.Total(), err
	}
	drafts, err := s.draft.need(c, l.device.Budget(), l.device.Threads())
	return p.Need.Total() + drafts, err
}

// need returns the memory that a model takes at least where so many bytes are free, or why that is too little.
func (l *loader) need(s *served, room uint64) (uint64, error) {
	limit, reason := l.device.Budget().Limit()
	s.config.Device = l.device // with whose models it may have weights in common
	drafts := uint64(0)
	if s.first {
		var err error
		if drafts, err = s.draft.need(s.config, mem.NewBudget(room, reason), l.device.Threads()); err != nil {
			return 0, err
		}
	}
	p, err := engine.NewPlan(s.head.file, mem.NewBudget(room-min(room, drafts), reason), l.device.Threads(), s.config)
	var fit *engine.FitError
	if errors.As(err, &fit) {
		fit.Limit = limit // and not only what is free of it
	}
	if err != nil {
		return 0, s.draft.beside(fmt.Errorf("%s: %w", s.path, err), s.path, drafts)
	}
	return p.Need.Total() + drafts, nil
}

// loads returns a function that loads a model whose head read returns.
func (l *loader) loads(read func() (*served, error)) func(context.Context, func(float64)) (models.Instance[server.Model], error) {
	return func(ctx context.Context, progress func(float64)) (models.Instance[server.Model], error) {
		s, err := read()
		if err != nil {
			return nil, err
		}
		r, err := l.one(ctx, s, progress)
		if err != nil {
			return nil, err // not a non-nil Instance that holds nil
		}
		return r, nil
	}
}

// panicked logs a panic in what reads or runs a model.
func (l *loader) panicked(p *models.PanicError) {
	l.logs.Error().Str("model", p.Name).Str("panic", fmt.Sprint(p.Value)).Bytes("stack", p.Stack).Msg("a model panicked; others go on")
}

// A resident is a model with its engine.
type resident struct {
	*served
	m       server.Model
	metrics *telemetry.ModelMetrics
	gone    func() // keeps its counts
	logs    zerolog.Logger
}

// one loads a model, unless ctx ends, and starts its loop.
func (l *loader) one(ctx context.Context, s *served, progress func(float64)) (r *resident, err error) {
	name, start := s.names[0], time.Now()
	r = &resident{served: s, metrics: l.metrics.Model(name), logs: l.logs.With().Str("model", name).Logger()}
	bar := newLoadBar(l.stderr)
	s.config.Device, s.config.Until, s.config.Progress = l.device, ctx, func(done, total uint64) {
		bar.update(done, total)
		progress(float64(done) / float64(max(total, 1)))
	}
	d := &draftFlags{}
	if s.first {
		d = &s.draft
	}
	s.eng, s.drafts, err = d.opened(func() (*engine.Engine, error) {
		defer bar.done()
		return engine.New(s.head.file, s.config)
	}, s.path, s.head.tok, s.config, func(line string) { r.logs.Info().Msg(line) }, func(err error) {
		r.logs.Warn().Err(err).Msg("the draft model failed; it does not draft for a while")
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			if s.loop != nil {
				s.loop.Close()
			}
			s.closeEngines()
		}
	}()
	loaded, err := s.adapted()
	if err != nil {
		return nil, err
	}
	s.loop, err = engine.NewLoop(s.eng, engine.LoopConfig{
		Queue: s.queue, TargetITL: s.targetITL, OnPass: r.metrics.Pass, Disk: l.disk, Profile: verify.Profile(),
		OnPanic: func(p *engine.PanicError) {
			r.logs.Error().Uint64("sequence", p.Request).Str("panic", fmt.Sprint(p.Value)).Bytes("stack", p.Stack).Msg("a request panicked; it was ended")
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	r.m = s.serverModel(s, s.defaults, observed{s.loop, telemetry.NewObserver(r.metrics, l.tracing.Tracer())}, r.logs)
	r.m.Memory, r.m.Spare = l.device.Budget(), l.device.Give
	r.m.Adapters = loaded
	if err := s.vectors.apply(&r.m, s.eng); err != nil {
		return nil, err
	}
	r.gone = r.metrics.Read(s.loop.Status)
	if err := s.eng.MTP(); err != nil && s.head.cfg.NNext > 0 {
		r.logs.Info().Err(err).Msg("no layer of the model drafts")
	}
	if h := s.eng.Model().Config.Head; h.Arch != "" {
		r.logs.Info().Str("head", filepath.Base(s.draft.model)).Str("architecture", h.Arch).Msg("a head drafts")
	}
	if line := beyond(s.eng.Ctx(), s.head.cfg, s.model.overrides); line != "" {
		r.logs.Warn().Msg(line)
	}
	cost := s.loop.Status().Cost
	r.logs.Info().Str("file", filepath.Base(s.path)).Dur("load", time.Since(start)).Int("context", s.eng.Ctx()).
		Dur("first_token_ms", cost.First).Dur("prompt_token_ms", cost.Each).Msg("loaded")
	return r, nil
}

// Model implements models.Instance.
func (r *resident) Model() *server.Model { return &r.m }

// Bytes implements models.Instance.
func (r *resident) Bytes() uint64 { return r.loop.Bytes() }

// Need implements models.Instance.
func (r *resident) Need(room uint64) (uint64, error) { return r.loop.Need(room) }

// Sleep implements models.Instance.
func (r *resident) Sleep() error {
	err := r.loop.Sleep()
	if err == nil {
		r.logs.Info().Str("kept", mem.FormatBytes(r.loop.Bytes())).Msg("asleep")
	}
	return err
}

// Wake implements models.Instance.
func (r *resident) Wake(ctx context.Context, progress func(float64)) error {
	start := time.Now()
	err := r.loop.Wake(ctx, func(done, total uint64) { progress(float64(done) / float64(max(total, 1))) })
	if err == nil {
		r.logs.Info().Dur("load", time.Since(start)).Msg("awake")
	}
	return err
}

// Close implements models.Instance.
func (r *resident) Close() {
	r.gone()
	r.loop.Close()
	r.closeEngines()
	r.logs.Info().Msg("unloaded")
}

// closeEngines closes the model, and what drafts for it.
func (s *served) closeEngines() {
	if s.drafts != nil {
		s.drafts.Close()
	}
	s.eng.Close()
}

// adapted loads the adapters of a model whose loop has not begun.
func (s *served) adapted() ([]server.Adapter, error) {
	var all []server.Adapter
	for _, n := range s.adapters {
		a, err := s.eng.OpenAdapter(n.path)
		if err != nil {
			return nil, err
		}
		a.Name = n.name
		one := server.Adapter{Name: n.name, Path: n.path, Scale: n.scale, Applied: n.scale, Loaded: a}
		if s.serveFlags.adapters.idle {
			one.Applied = 0
		}
		all = append(all, one)
	}
	return all, nil
}

// observed is an engine with telemetry.
type observed struct {
	*engine.Loop
	observer *telemetry.Observer
}

func (o observed) Submit(r *engine.Request) (server.Ticket, error) {
	o.observer.Watch(r)
	t, err := o.Loop.Submit(r)
	if err != nil {
		o.observer.Refused(err)
		return nil, err // not a non-nil Ticket that holds nil
	}
	return t, nil
}
