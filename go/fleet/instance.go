package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/telemetry"
	"github.com/quern-llm/quern/go/verify"
)

// An Instance is a model that is loaded, with the loop that runs its requests. It implements models.Instance.
type Instance struct {
	model   ask.Model
	open    *launch.Model
	loop    *engine.Loop
	metrics *telemetry.ModelMetrics
	gone    func() // keeps its counts
	log     zerolog.Logger
}

// instance loads a model, unless ctx ends, and starts its loop. It takes ownership of m's head.
func (f *Fleet) instance(ctx context.Context, m *member, progress func(float64)) (_ *Instance, err error) {
	name, start := m.Names[0], time.Now()
	i := &Instance{metrics: f.metrics.Model(name), log: f.log.With().Str("model", name).Logger()}
	identity := ""
	if f.c.FineTuning {
		identity = m.head.File.Identity()
	}
	bar, end := f.c.Loading.Begin()
	i.open, err = m.head.Open(ctx, f.device, i.events(bar, progress))
	end()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			if i.loop != nil {
				i.loop.Close()
			}
			i.open.Close()
		}
	}()
	eng := i.open.Engine
	i.loop, err = engine.NewLoop(eng, engine.LoopConfig{
		Queue: m.Queue, TargetITL: m.TargetITL, OnPass: i.metrics.Pass, Disk: f.c.Server.Disk, Profile: verify.Profile(),
		OnPanic: func(p *engine.PanicError) {
			i.log.Error().Uint64("sequence", p.Request).Str("panic", fmt.Sprint(p.Value)).Bytes("stack", p.Stack).
				Msg("a request panicked; it was ended")
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	i.model = m.serverModel(i.open, i.log)
	i.model.Identity = identity
	i.model.Engine = observed{i.loop, telemetry.NewObserver(i.metrics, f.tracing.Tracer())}
	i.model.Memory, i.model.Spare = f.device.Budget(), f.device.Give
	if err := m.Vectors.apply(&i.model, eng); err != nil {
		return nil, err
	}
	i.gone = i.metrics.Read(i.loop.Status)
	i.describe(m, start)
	return i, nil
}

// events returns what is called while the model is opened.
func (i *Instance) events(bar func(done, total uint64), part func(float64)) launch.Events {
	return launch.Events{
		Progress: func(done, total uint64) {
			bar(done, total)
			part(float64(done) / float64(max(total, 1)))
		},
		Note:   func(line string) { i.log.Info().Msg(line) },
		Failed: func(err error) { i.log.Warn().Err(err).Msg("the draft model failed; it does not draft for a while") },
	}
}

// describe logs what there is to know of a model whose loading has begun at start.
func (i *Instance) describe(m *member, start time.Time) {
	eng := i.open.Engine
	if err := eng.MTP(); err != nil && m.head.Config.NNext > 0 {
		i.log.Info().Err(err).Msg("no layer of the model drafts")
	}
	if h := eng.Model().Config.Head; h.Arch != "" {
		i.log.Info().Str("head", filepath.Base(m.Launch.Draft.Path)).Str("architecture", h.Arch).Msg("a head drafts")
	}
	if line := i.open.Warning(); line != "" {
		i.log.Warn().Msg(line)
	}
	cost := i.loop.Status().Cost
	i.log.Info().Str("file", filepath.Base(m.Path)).Dur("load_ms", time.Since(start)).Int("context", eng.Ctx()).
		Dur("first_token_ms", cost.First).Dur("prompt_token_ms", cost.Each).
		Dur("full_prompt_ms", i.loop.PromptTime(eng.Ctx())).Msg("loaded")
}

// Model implements models.Instance.
func (i *Instance) Model() *ask.Model { return &i.model }

// Bytes implements models.Instance.
func (i *Instance) Bytes() uint64 { return i.loop.Bytes() }

// Need implements models.Instance.
func (i *Instance) Need(room uint64) (uint64, error) { return i.loop.Need(room) }

// Drain implements models.Instance.
func (i *Instance) Drain(ctx context.Context) { i.loop.Drain(ctx) }

// Sleep implements models.Instance.
func (i *Instance) Sleep() error {
	err := i.loop.Sleep()
	if err == nil {
		i.log.Info().Str("kept", mem.FormatBytes(i.loop.Bytes())).Msg("asleep")
	}
	return err
}

// Wake implements models.Instance.
func (i *Instance) Wake(ctx context.Context, progress func(float64)) error {
	start := time.Now()
	err := i.loop.Wake(ctx, func(done, total uint64) { progress(float64(done) / float64(max(total, 1))) })
	if err == nil {
		i.log.Info().Dur("load_ms", time.Since(start)).Msg("awake")
	}
	return err
}

// Close implements models.Instance.
func (i *Instance) Close() {
	i.gone()
	i.loop.Close()
	i.open.Close()
	i.log.Info().Msg("unloaded")
}

// observed is an engine with telemetry.
type observed struct {
	*engine.Loop
	observer *telemetry.Observer
}

func (o observed) Submit(r *engine.Request) (ask.Ticket, error) {
	o.observer.Watch(r)
	t, err := o.Loop.Submit(r)
	if err != nil {
		o.observer.Refused(err)
		return nil, err // not a non-nil Ticket that holds nil
	}
	return t, nil
}
