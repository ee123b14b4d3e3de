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

// A namedModel is a model's file and its name in the API; if name is empty, it is
// derived from the file.
type namedModel struct{ name, path string }

// clientName is the model's name in the API.
func (m namedModel) clientName() string {
	switch {
	case m.name != "":
		return m.name
	case m.path == demo.Name:
		return "quern-demo"
	}
	return strings.TrimSuffix(filepath.Base(m.path), ".gguf")
}

// parseModel parses FILE or NAME=FILE. An existing file takes precedence over a name.
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

// A modelsValue is the value of a repeatable flag for models.
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

// A served is a model while it is being loaded and served.
type served struct {
	namedModel
	names    []string // names in the API
	tags     []string
	head     *head
	template *chat.Template
	adapters []namedAdapter
	warning  string                                 // why that is not the model's own
	loaded   func(server.Model) (leases func() int) // makes the model available to requests

	config engine.Config
	eng    *engine.Engine
	loop   *engine.Loop
}

// A fleet is the models of a server, the default first.
type fleet []*served

// readModels reads the heads of all models, before any is loaded.
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
	adapters, err := f.adapters.list()
	if err != nil {
		return nil, err
	}
	for i, n := range named {
		s := &served{namedModel: n, names: []string{n.clientName()}}
		if i == 0 {
			s.adapters = adapters
			s.tags = f.tags
			if len(f.names) > 0 {
				s.names = f.names
			}
		}
		if s.head, err = readHead(n.path, true); err != nil {
			return all, err
		}
		all = append(all, s)
		if err := f.requests.checkTokens(s.head.tok); err != nil {
			return all, err
		}
		if s.template, s.warning, err = f.template.read(s.head); err != nil {
			return all, err
		}
		if s.warning != "" && !s.head.cfg.BothWays {
			logs.Warn().Str("model", s.names[0]).Msg(s.warning)
		}
		if s.config, err = f.model.config(s.head.cfg.NCtx); err != nil {
			return all, err
		}
		c := &s.config
		c.Ctx, c.Batch = max(f.model.ctx, 0), f.model.pass()
		c.Shared, c.Sequences, c.KVBytes = true, f.parallel, f.kvMemory
		if s.head.cfg.BothWays { // its keys and values are there for a pass
			c.Vectors, c.Shared, c.Sequences, c.KVBytes = true, false, 1, 0
		}
	}
	return all, nil
}

// longest returns the longest trained context of the models.
func (all fleet) longest() int {
	n := 0
	for _, s := range all {
		n = max(n, s.head.cfg.NCtx)
	}
	return n
}

// close closes the files of models whose loading has not begun.
func (all fleet) close() {
	for _, s := range all {
		s.head.file.Close()
	}
}

// drain waits for the running requests of all models, concurrently, until ctx ends.
func (all fleet) drain(ctx context.Context) {
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { s.loop.Drain(ctx) })
	}
	wg.Wait()
}

// stop stops the models that are loaded.
func (all fleet) stop() {
	for _, s := range all {
		s.loop.Close()
		s.eng.Close()
	}
}

// watchEvery is the time between two readings of the machine's limits.
const watchEvery = 2 * time.Second

// watch makes the device follow the machine's limits, which may change: a container may
// be resized.
func (f *serveFlags) watch(ctx context.Context, device *engine.Device, logs zerolog.Logger) {
	m, err := f.model.machine()
	if err != nil {
		logs.Warn().Err(err).Msg("limits that change will not be followed")
		return
	}
	device.Watch(ctx, engine.WatchConfig{
		Machine: m, Memory: f.model.memory, Threads: f.model.threads == 0, Every: watchEvery,
		Log: func(line string) { logs.Warn().Msg(line) },
	})
}

// A loader loads models and makes them available to requests.
type loader struct {
	*serveFlags
	device   *engine.Device
	defaults server.Defaults
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing
	logs     zerolog.Logger
	stderr   io.Writer
}

// load loads all models in order. If one fails, none is loaded.
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

// setAside reserves the needs of each of several models before the first is loaded:
// otherwise the keys and values of the first would take the memory of the others, and a
// model that does not fit beside them would be found late.
func (l *loader) setAside(all fleet) ([]*mem.Reservation, error) {
	if len(all) == 1 {
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

// one loads a model, starts its loop and makes it available to requests.
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
	loaded, err := l.adapted(s)
	if err != nil {
		s.eng.Close()
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
	m.Adapters = loaded
	if err := l.vectors.apply(&m, s.eng); err != nil {
		s.loop.Close()
		s.eng.Close()
		return err
	}
	metrics.Read(s.loop.Status, s.loaded(m))
	cost := s.loop.Status().Cost
	logs.Info().Str("file", filepath.Base(s.path)).Dur("load", time.Since(start)).Int("context", s.eng.Ctx()).
		Dur("first_token_ms", cost.First).Dur("prompt_token_ms", cost.Each).Msg("loaded")
	return nil
}

// adapted loads the adapters of a model whose loop has not begun.
func (l *loader) adapted(s *served) ([]server.Adapter, error) {
	var all []server.Adapter
	for _, n := range s.adapters {
		a, err := s.eng.OpenAdapter(n.path)
		if err != nil {
			return nil, err
		}
		a.Name = n.name
		one := server.Adapter{Name: n.name, Path: n.path, Scale: n.scale, Applied: n.scale, Loaded: a}
		if l.adapters.idle {
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
