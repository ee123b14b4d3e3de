package model

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// A Follower is one of the other ranks: it has its part of the model and of the state of sequences, and does what rank 0
// tells it.
type Follower struct {
	Group   *kernel.Ranks
	File    *File
	Pool    *kernel.Pool
	Budget  *mem.Budget
	Version string             // of the program, which is rank 0's as well
	Loaded  func(bytes uint64) // called with the memory of its weights, once they are there; may be nil

	survey *Survey // once it has agreed to load
	use    Use
	model  *Model
	runner *Runner
	units  []*mem.Region
	taken  *mem.Reservation // of these
	room   []byte
}

// errQuit ends a follower.
var errQuit = errors.New("rank 0 has ended")

// Run follows rank 0 until that quits, which is no error. What it cannot do it tells rank 0, which ends the group.
func (f *Follower) Run(ctx context.Context) error {
	defer f.close()
	defer context.AfterFunc(ctx, f.Group.Break)()
	f.room = make([]byte, mostMessage)
	for {
		msg, err := f.Group.Recv(0, f.room, 0)
		if err == nil && len(msg) == 0 {
			err = fmt.Errorf("rank 0 has sent nothing: %w", ErrRank)
		}
		if err == nil {
			err = f.do(ctx, msg[0], msg[1:])
		}
		switch {
		case errors.Is(err, errQuit):
			return nil
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// do does what a message says.
func (f *Follower) do(ctx context.Context, kind byte, body []byte) error {
	switch kind {
	case msgJoin:
		return f.answer(nil, f.busy(func() error { return f.join(body) }))
	case msgLoad:
		var has holding
		err := f.busy(func() (err error) {
			has, err = f.load(ctx)
			return err
		})
		return f.answer(has, err)
	case msgMemory:
		return f.answer(nil, f.busy(func() error { return f.allocate(body) }))
	case msgPing:
		return f.answer(nil, nil)
	case msgMeasure:
		_, err := MeasureNetwork(f.Group)
		return err
	case msgQuit:
		return errQuit
	}
	if f.runner == nil {
		return fmt.Errorf("message %q of rank 0 comes too early: %w", kind, ErrRank)
	}
	switch kind {
	case msgPass:
		if err := f.runner.batch.Take(body); err != nil {
			return err
		}
		err := f.runner.Forward(nil, nil)
		switch {
		case errors.Is(err, ErrStopped):
			return f.Group.Failed()
		case err == nil && f.survey.ranks.Layers:
			return f.did()
		}
		return err
	case msgOutput:
		return f.output(body)
	case msgCopy:
		return f.copy(body)
	}
	return fmt.Errorf("message %q of rank 0 is not known: %w", kind, ErrRank)
}

// Decline answers rank 0's invitation with why this process cannot follow, and returns that. An invitation that does not
// come soon is not waited for.
func Decline(g *kernel.Ranks, why error) error {
	f := Follower{Group: g}
	if msg, err := g.Recv(0, make([]byte, mostMessage), 10*time.Second); err == nil && len(msg) > 0 && msg[0] == msgJoin {
		_ = f.answer(nil, why)
	}
	return why
}

// busy tells rank 0 that the answer will come, until it does.
func (f *Follower) busy(do func() error) error {
	done, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		tick := time.NewTicker(busyEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if f.Group.Send(0, []byte{msgBusy}) != nil {
					return
				}
			}
		}
	}()
	defer func() { // the group has one caller at a time
		close(done)
		<-told
	}()
	return do()
}

// answer tells rank 0 that something went well, with what has come of it unless that is nil, or why not. An error is the
// follower's as well.
func (f *Follower) answer(with any, err error) error {
	msg := []byte{msgReady}
	if with != nil && err == nil {
		var text []byte
		text, err = json.Marshal(with)
		msg = append(msg, text...)
	}
	if err == nil {
		return f.Group.Send(0, msg)
	}
	text := err.Error()
	return errors.Join(err, f.Group.Send(0, append([]byte{msgError}, text[:min(len(text), 4000)]...)))
}

// join finds out whether this rank can load its part of the model.
func (f *Follower) join(body []byte) error {
	var in invitation
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	switch {
	case f.survey != nil:
		return fmt.Errorf("it has a model already")
	case in.Version != f.Version:
		return fmt.Errorf("it is version %q, rank 0 is %q; ranks run the same program", f.Version, in.Version)
	case in.File != f.File.identity():
		return fmt.Errorf("%s is another file than rank 0's", f.File.Name())
	}
	s, err := NewSurvey(f.File, in.KV, in.Ctx)
	if err == nil {
		s, err = s.Split(Ranks{Group: f.Group, Shares: in.Shares, Least: in.Least, Layers: in.Layers})
	}
	var division string
	if err == nil {
		division, err = s.division(in.Use.Residency)
	}
	if err == nil && division != in.Division {
		err = fmt.Errorf("it is divided here in another way than by rank 0: %w", ErrRank)
	}
	in.Use.Threads, in.Use.Places = f.Pool.Threads(), 1
	var need Estimate
	if err == nil {
		need, err = s.Memory(in.Use)
	}
	if free := f.Budget.Free(); err == nil && need.Weights+need.Activations > free {
		err = fmt.Errorf("this rank's part needs %s and its keys and values, %s are free",
			mem.FormatBytes(need.Weights+need.Activations), mem.FormatBytes(free))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.File.Name(), err)
	}
	if in.Layers {
		f.Group.Patience(patienceOfLayers)
	}
	f.survey, f.use = s, in.Use
	return nil
}

// load loads this rank's part of the model.
func (f *Follower) load(ctx context.Context) (has holding, err error) {
	if f.survey == nil || f.model != nil {
		return has, fmt.Errorf("rank 0 has a model loaded before an invitation, or again: %w", ErrRank)
	}
	f.model, err = f.survey.Load(Options{Pack: f.Pool.PackInto, Budget: f.Budget, Residency: f.use.Residency, Until: ctx})
	var need Estimate
	if err == nil {
		need, err = f.survey.Memory(f.use)
	}
	if err != nil {
		return has, fmt.Errorf("%s: %w", f.File.Name(), err)
	}
	if f.Loaded != nil {
		f.Loaded(f.model.WeightBytes())
	}
	free := f.Budget.Free()
	has.Free = free - min(free, need.Activations)
	for _, g := range f.model.Layout {
		has.Units = append(has.Units, g.Bytes)
	}
	return has, nil
}

// allocate makes room for as many units, tokens and sequences as rank 0 has.
func (f *Follower) allocate(body []byte) (err error) {
	var l limits
	if err := json.Unmarshal(body, &l); err != nil {
		return err
	}
	switch {
	case f.model == nil || f.runner != nil:
		return fmt.Errorf("limits of rank 0 come at another time than after its model: %w", ErrRank)
	case len(l.Units) != len(f.model.Layout):
		return fmt.Errorf("%d groups of state, rank 0 has %d", len(f.model.Layout), len(l.Units))
	}
	f.runner, err = NewRunner(f.model, RunnerConfig{
		Pool: f.Pool, Budget: f.Budget, MaxTokens: l.MaxTokens, MaxSeqs: l.MaxSeqs, MaxBlocks: l.MaxBlocks, MaxOut: l.MaxOut,
	})
	if err != nil {
		return err
	}
	most := uint64(0)
	for i, g := range f.model.Layout {
		const limit = 1 << 44 // bytes, of which an address space has enough
		if n := l.Units[i]; n < 1 || n > limit/g.Bytes {
			return fmt.Errorf("%d units of %d bytes", n, g.Bytes)
		}
		most = max(most, uint64(l.Units[i])*uint64(g.Bytes))
	}
	// As in a KV pool, groups share the memory, and pages are memory when they are written; rank 0 decides how many units
	// of each there are at a time.
	if f.taken, err = f.Budget.Reserve("keys and values", most); err != nil {
		return err
	}
	for i, g := range f.model.Layout {
		r, err := mem.Alloc(uint64(l.Units[i])*uint64(g.Bytes), "keys and values")
		if err != nil {
			return err
		}
		f.units = append(f.units, r)
		f.runner.batch.SetState(i, r.Bytes(), g.Bytes)
	}
	return nil
}

// words returns the 32-bit numbers of a message.
func words(body []byte) []int32 {
	list := make([]int32, len(body)/4)
	for i := range list {
		list[i] = int32(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return list
}

// output computes its part of an output.
func (f *Follower) output(body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // what a runner refuses
			err = fmt.Errorf("an output of rank 0: %v", p)
		}
	}()
	w := words(body)
	if len(w) < 2 || w[0] < 0 || int(w[0]) >= len(f.runner.outputs) {
		return fmt.Errorf("an output of rank 0 is cut short: %w", ErrRank)
	}
	o := f.runner.outputs[w[0]]
	if o.Given {
		return fmt.Errorf("an output of rows that rank 0 alone has: %w", ErrRank)
	}
	f.runner.pick(o.Name, false)
	f.runner.run(w[1:])
	return f.Group.Failed()
}

// copy copies a unit of the state of sequences.
func (f *Follower) copy(body []byte) error {
	w := words(body)
	if len(w) != 3 || w[0] < 0 || int(w[0]) >= len(f.units) {
		return fmt.Errorf("a copy of rank 0 is cut short: %w", ErrRank)
	}
	all, size := f.units[w[0]].Bytes(), f.model.Layout[w[0]].Bytes
	if n := int32(len(all) / size); w[1] < 0 || w[1] >= n || w[2] < 0 || w[2] >= n {
		return fmt.Errorf("a copy of rank 0 from unit %d to %d of %d: %w", w[2], w[1], n, ErrRank)
	}
	copy(all[int(w[1])*size:][:size], all[int(w[2])*size:])
	return nil
}

func (f *Follower) close() {
	if f.runner != nil {
		f.runner.Close()
	}
	for _, r := range f.units {
		r.Close()
	}
	if f.taken != nil {
		f.taken.Release()
	}
	if f.model != nil {
		f.model.Close()
	}
}
