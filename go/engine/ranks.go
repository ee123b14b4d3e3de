package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	invited bool // the others were told to load a model, which they do once
}

// Dismiss ends the other ranks if no engine did, which ends those that it has invited when it is closed.
func (r *Ranks) Dismiss() {
	if r.Group.Rank() == 0 && !r.invited {
		r.invited = true
		model.Dismiss(r.Group)
	}
}

// ErrRanks reports that another rank has ended, or does not answer. All later passes of the engine fail with it.
var ErrRanks = kernel.ErrRanks

// errDivided reports what a divided model cannot do.
var errDivided = errors.New("not for a model that is divided among ranks")

const (
	pingEvery = time.Second     // of ranks that have nothing to do
	pongAfter = 3 * time.Second // at most
)

// divide refuses what a divided model cannot do, and leaves out what is optional.
func (c *Config) divide() error {
	for _, v := range []struct {
		asked bool
		what  string
	}{
		{c.Media != nil, "pictures and sounds are"},
		{c.Vectors, "vectors are"},
		{len(c.Tiers) > 0, "keys and values in tiers are"},
		{c.Shift, "a context that is shifted is"},
		{c.Residency == model.Streamed, "streamed weights are"},
	} {
		if v.asked {
			return fmt.Errorf("%s %w", v.what, errDivided)
		}
	}
	c.Early, c.MTP = false, false
	return nil
}

// divided returns the survey of this rank's part of a model, or an error if the model is of a kind that is not divided.
func (c *Config) divided(s *model.Survey) (*model.Survey, error) {
	switch {
	case s.Config.Sound.Bands > 0: // what it hears is rows, and ranks are told tokens
		return nil, fmt.Errorf("%s, a model of speech, is %w", s.Config.Arch, errDivided)
	case s.Config.Head.Arch != "": // the others have not joined it to their files
		return nil, fmt.Errorf("a head that drafts (%s) is %w; leave out --model-draft", s.Config.Head.Arch, errDivided)
	}
	if err := c.Ranks.choose(s, c.Device); err != nil {
		return nil, err
	}
	return s.Split(c.Ranks.Ranks)
}

// whole returns an error if the model is divided, which says that something is not possible then.
func (e *Engine) whole(what string) error {
	if e.lead == nil {
		return nil
	}
	return fmt.Errorf("%s %w", what, errDivided)
}

// invite has the other ranks load their parts, if all can.
func (e *Engine) invite(ctx context.Context, s *model.Survey, p Plan) (err error) {
	if e.config.Ranks == nil {
		return nil
	}
	if budget := e.device.budget; p.Need.Total() > budget.Free() { // before the others load for nothing
		return e.config.unfit(e.file, budget, e.device.Threads(), p)
	}
	if e.config.Ranks.invited {
		return errors.New("the other ranks have been told to load a model once, and take no other: restart them all")
	}
	e.config.Ranks.invited = true
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
	if err := e.runner.Lead(ctx, e.lead, units); err != nil {
		return err
	}
	e.kv.OnCopy(e.lead.Copied)
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
		err := e.device.inTurn(func() error { return e.lead.Ping(pingEvery, pongAfter) })
		if err != nil {
			if lost := e.config.Ranks.Lost; lost != nil {
				lost(err)
			}
			return
		}
	}
}

// dismiss ends the other ranks.
func (e *Engine) dismiss() {
	if e.watching != nil {
		close(e.watching)
		<-e.watched
		e.watching = nil
	}
	e.lead.Quit()
	e.lead = nil
}

// Follow has this process compute its part of a model until rank 0 ends, which is no error. Loaded is called with the
// memory of its weights once they are loaded; it may be nil. The caller keeps the file.
func Follow(ctx context.Context, file *model.File, c DeviceConfig, r Ranks, loaded func(bytes uint64)) error {
	d, err := NewDevice(c)
	if err != nil {
		return Decline(r, err)
	}
	defer d.Close()
	leave := d.enter()
	defer leave()
	f := model.Follower{Group: r.Group, File: file, Pool: d.pool, Budget: d.budget, Version: r.Version, Loaded: loaded}
	return cmp.Or(f.Run(ctx), ctx.Err())
}

// Decline tells rank 0 why this process cannot follow it, and returns that.
func Decline(r Ranks, why error) error { return model.Decline(r.Group, why) }

// InThreads returns ranks that are goroutines of this process, of which the others follow until rank 0's engine is closed:
// what a division computes can be tried out without other machines. The returned function waits for them, and returns
// their first error. Each has its share of the threads.
func InThreads(ctx context.Context, file *model.File, c DeviceConfig, n int) (r *Ranks, wait func() error, err error) {
	if err := c.Fill(); err != nil {
		return nil, nil, err
	}
	all, err := kernel.ThreadRanks(n)
	if err != nil {
		return nil, nil, err
	}
	c.Threads, c.Place = max(c.Threads/n, 1), machine.Placement{}
	ended := make(chan error, n)
	for _, g := range all[1:] {
		go func() {
			again, err := file.Again()
			r := Ranks{Ranks: model.Ranks{Group: g}}
			if err == nil {
				err = Follow(ctx, again, c, r, nil)
				again.Close()
			} else {
				err = Decline(r, err)
			}
			g.Close()
			ended <- err
		}()
	}
	return &Ranks{Ranks: model.Ranks{Group: all[0]}}, func() error {
		all[0].Close()
		var first error
		for range n - 1 {
			first = cmp.Or(first, <-ended)
		}
		return first
	}, nil
}
