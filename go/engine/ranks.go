package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/model"
)

// Ranks are processes among which a model is divided. This one is rank 0, which decides everything; the others run Follow.
type Ranks struct {
	model.Ranks
	Version string // of the program: that of all ranks is the same
	// Lost is called once, with the reason, when another rank has ended or does not answer: no pass can run any more. It
	// may be nil.
	Lost func(error)
	// Slow is called when others have waited for a rank for a minute. It may be nil.
	Slow func(model.Slow)
	// Choose has the engine divide the model by rows or by layers, whatever is predicted to be faster; Chosen is called with
	// the prediction, and may be nil.
	Choose bool
	Chosen func(model.Prediction, model.Network)

	busy int32 // 1: the others have a model, or are told to load one; atomic, since who loads is not waited for
	told int32 // 1: Lost was called
}

// Dismiss ends the other ranks, unless they have a model, or are told to load one: then an engine is still open or being
// opened, it returns false, and the group may not be closed. After it no model can be divided.
func (r *Ranks) Dismiss() bool {
	if !r.claim() {
		return false
	}
	if r.Group.Rank() == 0 {
		model.Dismiss(r.Group)
	}
	return true
}

// claim has the caller use the group, and nobody else until release.
func (r *Ranks) claim() bool { return atomic.CompareAndSwapInt32(&r.busy, 0, 1) }

func (r *Ranks) release() { atomic.StoreInt32(&r.busy, 0) }

// errClaimed reports that the ranks are used by another engine, or have been dismissed.
var errClaimed = errors.New("the ranks have a model already, and divide one at a time")

// ErrRanks reports that another rank has ended, or does not answer. All later passes of the engine fail with it.
var ErrRanks = kernel.ErrRanks

// errByLayers reports what a model cannot do that is divided by layers, of which several passes are under way.
var errByLayers = errors.New("not for a model that is divided by layers; use --split rows")

// errDivided reports what a divided model cannot do.
var errDivided = errors.New("not for a model that is divided among ranks")

const (
	pingEvery = time.Second     // of ranks that have nothing to do
	pongAfter = 3 * time.Second // at most
)

// divide refuses what a divided model cannot do, and leaves out what is optional.
func (c *Config) divide() error {
	if c.Residency == model.Streamed {
		return fmt.Errorf("streamed weights are %w", errDivided)
	}
	if c.Sparse.Part > 0 {
		return fmt.Errorf("prompts that read some of their keys (--sparse-prompts) are %w", errDivided)
	}
	c.Early = false
	return nil
}

// divided returns the survey of this rank's part of a model, or an error if what is asked for is not divided so.
func (c *Config) divided(s *model.Survey) (*model.Survey, error) {
	what := c.byRows(s.Config)
	if what != "" && c.Ranks.Choose {
		c.Ranks.Choose, c.Ranks.Layers = false, false
	}
	if err := c.Ranks.choose(s, c.Device); err != nil {
		return nil, err
	}
	if what != "" && c.Ranks.Layers {
		return nil, fmt.Errorf("%s %w", what, errByLayers)
	}
	return s.Split(c.Ranks.Ranks)
}

// byRows returns what of the configuration is for models that are divided by rows; "": nothing.
func (c *Config) byRows(m *model.Config) string {
	for _, v := range []struct {
		asked bool
		what  string
	}{
		{c.Media != nil, "pictures and sounds are"},
		{c.Vectors, "vectors are"},
		{len(c.Tiers) > 0, "keys and values in tiers are"},
		{c.Shift, "a context that is shifted is"},
		{m.Sound.Bands > 0, "a model of speech is"},
		{m.Head.Arch != "", "a head that drafts is"},
	} {
		if v.asked {
			return v.what
		}
	}
	return ""
}

// byLayers reports whether the model is divided by layers.
func (c *Config) byLayers() bool { return c.Ranks != nil && c.Ranks.Layers }

// notByLayers returns an error if the model is divided by layers, which says that something is not possible then.
func (e *Engine) notByLayers(what string) error {
	if !e.config.byLayers() {
		return nil
	}
	return fmt.Errorf("%s %w", what, errByLayers)
}

// invite has the other ranks load their parts, if all can.
func (e *Engine) invite(ctx context.Context, s *model.Survey, p Plan) (err error) {
	if e.config.Ranks == nil {
		return nil
	}
	if budget := e.device.budget; p.Need.Total() > budget.Free() { // before the others load for nothing
		return e.config.unfit(e.file, budget, e.device.Threads(), p)
	}
	if !e.config.Ranks.claim() {
		return errClaimed
	}
	e.lead, err = s.Invite(ctx, e.config.Ranks.Version, p.Use)
	return err
}

// least waits until all ranks have loaded their parts, and returns the bytes of keys and values of this one for which all
// have memory, of those that are free here.
func (e *Engine) least(ctx context.Context, free uint64) (uint64, error) {
	if e.lead == nil {
		return free, nil
	}
	others, err := e.lead.Loaded(ctx, e.model.Layout)
	return min(free, others), err
}

// leads makes the other ranks follow the runner and the KV pool.
func (e *Engine) leads(ctx context.Context) error {
	if e.lead == nil {
		return nil
	}
	var units []int
	for i := range e.kv.Layout() {
		units = append(units, e.kv.Count(i))
	}
	if err := e.runner.Lead(ctx, e.lead, units, e.mover != nil, e.shifts); err != nil {
		return err
	}
	e.kv.SetTwin(e.lead)
	if widest := e.model.Widest(); widest > 0 {
		e.stages = &stages{group: e.config.Ranks.Group, widest: widest}
	}
	e.watching, e.watched = make(chan struct{}), make(chan struct{})
	go e.watch()
	return nil
}

// watch finds out whether the other ranks are still there, until the engine is closed.
func (e *Engine) watch() {
	defer close(e.watched)
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	r := e.config.Ranks
	slow := slowWatch{loads: r.loads, shares: r.Shares, layers: r.Layers, slow: r.Slow}
	for {
		select {
		case <-e.watching:
			return
		case now := <-tick.C:
			slow.look(now)
		}
		if !e.talk.TryLock() { // they are asked something else
			continue
		}
		err := e.device.inTurn(func() error { return e.lead.Ping(pingEvery, pongAfter) })
		e.talk.Unlock()
		if err != nil {
			e.lost(err)
			return
		}
	}
}

// lost tells that another rank has ended or does not answer.
func (e *Engine) lost(err error) {
	if r := e.config.Ranks; r.Lost != nil && atomic.CompareAndSwapInt32(&r.told, 0, 1) {
		r.Lost(err)
	}
}

// dismiss has the other ranks release the model.
func (e *Engine) dismiss() {
	if e.watching != nil {
		close(e.watching)
		<-e.watched
		e.watching = nil
	}
	if e.lead != nil {
		e.lead.Close()
		e.lead = nil
		e.config.Ranks.release()
	}
}

// An Opener opens a model's file, with the head that drafts for it if that is wanted.
type Opener = func(head bool) (*model.File, error)

// Follow has this process compute its part of a model until rank 0 ends, which is no error. It opens the model's file when it
// is told to load it, and closes it when that is released. Loaded is called with the memory of its weights once they are
// loaded; it may be nil.
func Follow(ctx context.Context, open Opener, c DeviceConfig, r Ranks, loaded func(bytes uint64)) error {
	d, err := NewDevice(c)
	if err != nil {
		return Decline(r, err)
	}
	defer d.Close()
	leave := d.enter()
	defer leave()
	f := model.Follower{Group: r.Group, Open: open, Pool: d.pool, Budget: d.budget, Nodes: d.nodes(), Version: r.Version, Loaded: loaded}
	return cmp.Or(f.Run(ctx), ctx.Err())
}

// Decline tells rank 0 why this process cannot follow it, and returns that.
func Decline(r Ranks, why error) error { return model.Decline(r.Group, why) }

// InThreads returns ranks that are goroutines of this process: what a division computes can be tried out without other
// machines. The returned function, called when rank 0's engine is closed, ends the others, waits, and returns their first
// error; where an engine is still being opened, it stops them, and that fails. Each has its share of the threads.
func InThreads(ctx context.Context, open Opener, c DeviceConfig, n int) (r *Ranks, wait func() error, err error) {
	if err := c.Fill(); err != nil {
		return nil, nil, err
	}
	all, err := kernel.ThreadRanks(n)
	if err != nil {
		return nil, nil, err
	}
	c.Threads, c.Place = max(c.Threads/n, 1), machine.Placement{}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, n)
	for _, g := range all[1:] {
		go func() {
			err := Follow(ctx, open, c, Ranks{Ranks: model.Ranks{Group: g}}, nil)
			g.Close()
			ended <- err
		}()
	}
	r = &Ranks{Ranks: model.Ranks{Group: all[0]}}
	return r, func() error {
		defer stop()
		dismissed := r.Dismiss()
		if dismissed {
			all[0].Close()
		} else {
			stop()
		}
		var first error
		for range n - 1 {
			if err := <-ended; dismissed || !errors.Is(err, context.Canceled) {
				first = cmp.Or(first, err)
			}
		}
		return first
	}, nil
}
