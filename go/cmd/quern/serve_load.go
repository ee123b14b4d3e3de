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
	"github.com/quern-llm/quern/go/launch"
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
		src := server.Source{Tags: s.tags, Path: s.path, Info: infoOf(s.head), Ctx: s.head.Settings.Ctx}
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
			defer r.head.Close()
			return r.head.Need(l.device, room)
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
			return nil, err
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
	h := *s.head
	if h.Settings.Sequences = 1; h.Settings.Ctx == 0 {
		h.Settings.Ctx = min(h.Config.NCtx, launch.DefaultCtx)
	}
	return h.Need(l.device, l.device.Budget().Free())
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
	s.open, err = s.head.Open(ctx, l.device, launch.Events{
		Progress: func(done, total uint64) {
			bar.update(done, total)
			progress(float64(done) / float64(max(total, 1)))
		},
		Note:   func(line string) { r.logs.Info().Msg(line) },
		Failed: func(err error) { r.logs.Warn().Err(err).Msg("the draft model failed; it does not draft for a while") },
	})
	bar.done()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			if s.loop != nil {
				s.loop.Close()
			}
			s.open.Close()
		}
	}()
	eng := s.open.Engine
	s.loop, err = engine.NewLoop(eng, engine.LoopConfig{
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
	r.m.Adapters = s.adapted()
	if err := s.vectors.apply(&r.m, eng); err != nil {
		return nil, err
	}
	r.gone = r.metrics.Read(s.loop.Status)
	if err := eng.MTP(); err != nil && s.head.Config.NNext > 0 {
		r.logs.Info().Err(err).Msg("no layer of the model drafts")
	}
	if h := eng.Model().Config.Head; h.Arch != "" {
		r.logs.Info().Str("head", filepath.Base(s.draft.model)).Str("architecture", h.Arch).Msg("a head drafts")
	}
	if line := s.open.Warning(); line != "" {
		r.logs.Warn().Msg(line)
	}
	cost := s.loop.Status().Cost
	r.logs.Info().Str("file", filepath.Base(s.path)).Dur("load_ms", time.Since(start)).Int("context", eng.Ctx()).
		Dur("first_token_ms", cost.First).Dur("prompt_token_ms", cost.Each).Dur("full_prompt_ms", s.loop.PromptTime(eng.Ctx())).Msg("loaded")
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
		r.logs.Info().Dur("load_ms", time.Since(start)).Msg("awake")
	}
	return err
}

// Close implements models.Instance.
func (r *resident) Close() {
	r.gone()
	r.loop.Close()
	r.open.Close()
	r.logs.Info().Msg("unloaded")
}

// adapted returns the adapters of a model as a server has them.
func (s *served) adapted() (all []server.Adapter) {
	for i, a := range s.open.Adapters {
		one := server.Adapter{Name: a.Adapter.Name, Path: s.head.Settings.Adapters[i].Path, Scale: a.Scale, Applied: a.Scale, Loaded: a.Adapter}
		if s.serveFlags.adapters.idle {
			one.Applied = 0
		}
		all = append(all, one)
	}
	return all
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
