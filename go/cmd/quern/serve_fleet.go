package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/telemetry"
)

// A namedModel is a model's file, and what clients call it: where that is empty, as
// the file.
type namedModel struct{ name, path string }

// clientName is what clients call it.
func (m namedModel) clientName() string {
	switch {
	case m.name != "":
		return m.name
	case m.path == demo.Name:
		return "quern-demo"
	}
	return strings.TrimSuffix(filepath.Base(m.path), ".gguf")
}

// parseModel reads FILE or NAME=FILE. A file that exists is meant before a name.
func parseModel(s string) (namedModel, error) {
	name, path, named := strings.Cut(s, "=")
	if _, err := os.Stat(s); err == nil || !named || strings.ContainsRune(name, '/') {
		return namedModel{path: s}, acceptModel(s)
	}
	if name == "" {
		return namedModel{}, fmt.Errorf("%q begins with =, want FILE or NAME=FILE", s)
	}
	return namedModel{name, path}, acceptModel(path)
}

// A modelsValue is the models of a flag that may be given again.
type modelsValue struct{ models *[]namedModel }

func (v *modelsValue) Set(s string) error {
	m, err := parseModel(s)
	if err == nil {
		*v.models = append(*v.models, m)
	}
	return err
}

func (v *modelsValue) Type() string { return "FILE" }

func (v *modelsValue) String() string {
	if v.models == nil {
		return ""
	}
	var all []string
	for _, m := range *v.models {
		all = append(all, m.path)
	}
	return strings.Join(all, ",")
}

// A served is a model on its way from its file to requests.
type served struct {
	namedModel
	names    []string // for clients
	tags     []string
	head     *head
	template *chat.Template
	warning  string                                 // why that is not the model's own
	loaded   func(server.Model) (leases func() int) // lets requests in

	config engine.Config
	eng    *engine.Engine
	loop   *engine.Loop
}

// A fleet is the models of a server, the default first.
type fleet []*served

// readModels reads all that there is to know of the models before they are loaded.
func (f *serveFlags) readModels(logs zerolog.Logger) (all fleet, err error) {
	named := f.models
	if len(named) == 0 {
		named = []namedModel{{path: demo.Name}}
		logs.Info().Msg(demoNote)
	}
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	for i, n := range named {
		s := &served{namedModel: n, names: []string{n.clientName()}}
		if i == 0 {
			s.tags = f.tags
			if len(f.names) > 0 {
				s.names = f.names
			}
		}
		if s.head, err = readHead(n.path, true); err != nil {
			return all, err
		}
		all = append(all, s)
		if err := f.requests.checkIDs(s.head.tok.Len()); err != nil {
			return all, err
		}
		if s.template, s.warning, err = f.template.read(s.head); err != nil {
			return all, err
		}
		if s.warning != "" {
			logs.Warn().Str("model", s.names[0]).Msg(s.warning)
		}
		if s.config, err = f.model.config(s.head.cfg.NCtx); err != nil {
			return all, err
		}
		c := &s.config
		c.Ctx, c.Batch = max(f.model.ctx, 0), f.model.pass()
		c.Shared, c.Sequences, c.KVBytes = true, f.parallel, f.kvMemory
	}
	return all, nil
}

// longest returns the longest context that a model was made for.
func (all fleet) longest() int {
	n := 0
	for _, s := range all {
		n = max(n, s.head.cfg.NCtx)
	}
	return n
}

// close closes the files of models that nobody began to load.
func (all fleet) close() {
	for _, s := range all {
		s.head.file.Close()
	}
}

// drain lets what runs finish, of all models at a time, until ctx ends.
func (all fleet) drain(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { s.loop.Drain(ctx) })
	}
	wg.Wait()
}

// stop ends models that are loaded.
func (all fleet) stop() {
	for _, s := range all {
		s.loop.Close()
		s.eng.Close()
	}
}

// newDevice returns what the models share.
func (f *serveFlags) newDevice() (*engine.Device, error) {
	c, err := f.model.device()
	if err != nil {
		return nil, err
	}
	return engine.NewDevice(c)
}

// A loader loads models and lets requests in.
type loader struct {
	*serveFlags
	device   *engine.Device
	defaults server.Defaults
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing
	logs     zerolog.Logger
	stderr   io.Writer
}

// load loads all models in their order. Where one cannot be loaded, none is.
func (l *loader) load(all fleet) error {
	aside, err := l.setAside(all)
	if err != nil {
		all.close()
		return err
	}
	for i, s := range all {
		if i < len(aside) {
			aside[i].Release()
		}
		if err := l.one(s); err != nil {
			all[:i].stop()
			all[i+1:].close()
			return err
		}
	}
	return nil
}

// setAside takes from the budget what each of several models needs, before the first is
// loaded: else the keys and values of that would take what the others need, and one
// that does not fit beside them would be found late.
func (l *loader) setAside(all fleet) ([]*mem.Reservation, error) {
	if len(all) == 1 {
		return nil, nil // it may have everything
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

// least returns the memory that a model needs to be as fast as it can be, or, where
// that is too much and the flags let it, to run.
func (l *loader) least(s *served) (uint64, error) {
	c := s.config
	c.Sequences = 1
	if c.Ctx == 0 {
		c.Ctx = min(s.head.cfg.NCtx, defaultCtx)
	}
	need := func(r model.Residency) (uint64, error) {
		c.Residency = r
		e, err := engine.Memory(s.head.file, l.device.Threads(), c)
		if l.kvMemory > 0 {
			e.KV = l.kvMemory
		}
		return e.Total(), err
	}
	bytes, err := need(c.Residency)
	if err == nil && c.Residency == model.Auto && bytes > l.device.Budget().Free() {
		return need(model.Mapped)
	}
	return bytes, err
}

// one loads a model, starts its loop and lets requests in.
func (l *loader) one(s *served) (err error) {
	name, start := s.names[0], time.Now()
	metrics := l.metrics.Model(name)
	logs := l.logs.With().Str("model", name).Logger()
	bar := newLoadBar(l.stderr)
	s.config.Device, s.config.Progress = l.device, bar.update
	s.eng, err = engine.New(s.head.file, s.config)
	bar.done()
	if err != nil {
		return err
	}
	s.loop, err = engine.NewLoop(s.eng, engine.LoopConfig{
		Queue: l.queue, TargetITL: l.targetITL, OnPass: metrics.Pass,
		OnPanic: func(p *engine.PanicError) {
			logs.Error().Uint64("sequence", p.Request).Interface("panic", p.Value).Bytes("stack", p.Stack).Msg("a request panicked; it was ended")
		},
	})
	if err != nil {
		s.eng.Close()
		return fmt.Errorf("%s: %w", s.path, err)
	}
	m := l.serverModel(s, l.defaults, observed{s.loop, telemetry.NewObserver(metrics, l.tracing.Tracer())}, logs)
	m.Memory = l.device.Budget()
	metrics.Read(s.loop.Status, s.loaded(m))
	cost := s.loop.Status().Cost
	logs.Info().Str("file", filepath.Base(s.path)).Dur("load", time.Since(start)).Int("context", s.eng.Ctx()).
		Dur("first_token_ms", cost.First).Dur("prompt_token_ms", cost.Each).Msg("loaded")
	return nil
}

// observed is an engine whose requests are measured.
type observed struct {
	*engine.Loop
	observer *telemetry.Observer
}

func (o observed) Submit(r *engine.Request) (server.Ticket, error) {
	o.observer.Watch(r)
	t, err := o.Loop.Submit(r)
	if err != nil {
		o.observer.Refused(err)
		return nil, err // not a Ticket that is nil inside
	}
	return t, nil
}
