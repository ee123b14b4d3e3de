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
	Open    func(head bool) (*File, error) // the model's file, when rank 0 invites to it, and the head that drafts for it
	Pool    *kernel.Pool
	Budget  *mem.Budget
	Nodes   []int              // the NUMA nodes that keys and values are on, in turns; nil: the kernel decides
	Version string             // of the program, which is rank 0's as well
	Loaded  func(bytes uint64) // called with the memory of its weights, once they are there; may be nil

	file   *File   // once it was invited
	survey *Survey // once it has agreed to load
	use    Use
	limits limits
	model  *Model // nil as well while it sleeps
	runner *Runner
	mover  *Mover
	units  []*mem.Region
	taken  *mem.Reservation // of these
	rows   *mem.Region      // that tokens of a pass bring; nil: none do
	room   []byte
	asked  uint32 // the number of the question that is answered next

	adapters []*Adapter         // by number: those of batches
	loaded   map[int32]*Adapter // by number: they came since rank 0 has last decided on adapters
	next     *Runner            // with those that it decides on now: see Runner.with
	incoming *mem.Region        // the file of an adapter
	shards   []int              // of it
	read     int                // bytes of it that have come
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
		f.begin(body)
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
	case msgSleep:
		f.sleep()
		return f.answer(nil, nil)
	case msgWake:
		err := f.busy(func() error { return f.wake(ctx, body) })
		return f.answered(f.answer(nil, err), err)
	case msgPing:
		return f.answer(nil, nil)
	case msgMeasure:
		_, err := MeasureNetwork(f.Group)
		return err
	case msgClose:
		f.close()
		return nil
	case msgQuit:
		return errQuit
	}
	asleep := kind == msgUnits || kind == msgRead || kind == msgWrite // can be done then: units stay
	if f.units == nil || f.runner == nil && !asleep {
		return fmt.Errorf("message %q of rank 0 comes too early: %w", kind, ErrRank)
	}
	return f.follow(ctx, kind, body)
}

// follow does what a message says that is for a model.
func (f *Follower) follow(ctx context.Context, kind byte, body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // what a runner, a batch or a mover refuses
			err = fmt.Errorf("message %q of rank 0: %v", kind, p)
		}
	}()
	switch kind {
	case msgPass, msgOutput, msgKeep, msgStep:
		return f.pass(kind, body)
	case msgUnits, msgMove, msgAge, msgRead, msgWrite:
		return f.state(kind, body)
	case msgFile, msgPart, msgAdapter, msgAdapters, msgAdapted:
		return f.adapter(ctx, kind, body)
	}
	return fmt.Errorf("message %q of rank 0 is not known: %w", kind, ErrRank)
}

// answered returns the error of an answer that says why something was not done, but not that reason: nothing has changed, and
// rank 0 decides.
func (f *Follower) answered(err, why error) error {
	if why != nil && f.Group.Failed() == nil {
		return nil
	}
	return err
}

// Decline answers rank 0's invitation with why this process cannot follow, and returns that. An invitation that does not
// come soon is not waited for.
func Decline(g *kernel.Ranks, why error) error {
	f := Follower{Group: g}
	if msg, err := g.Recv(0, make([]byte, mostMessage), 10*time.Second); err == nil && len(msg) > 0 && msg[0] == msgJoin {
		f.begin(msg[1:])
		_ = f.answer(nil, why)
	}
	return why
}

// begin reads the number of the first question.
func (f *Follower) begin(invited []byte) {
	var in invitation
	_ = json.Unmarshal(invited, &in) // who joins says what is wrong with it
	f.asked = in.First
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
	msg := f.head(msgReady)
	if with != nil && err == nil {
		var text []byte
		text, err = json.Marshal(with)
		msg = append(msg, text...)
	}
	if err == nil {
		return f.Group.Send(0, msg)
	}
	text := err.Error()
	msg[0] = msgError
	return errors.Join(err, f.Group.Send(0, append(msg[:5], text[:min(len(text), 4000)]...)))
}

// head begins an answer to the next question.
func (f *Follower) head(kind byte) []byte {
	f.asked++
	return binary.LittleEndian.AppendUint32([]byte{kind}, f.asked-1)
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
	}
	var err error
	if f.file, err = f.Open(in.Head); err != nil {
		f.file = nil
		return err
	}
	if in.File != f.file.identity() {
		return fmt.Errorf("%s is another file than rank 0's", f.file.Name())
	}
	s, err := NewSurvey(f.file, in.KV, in.Ctx, in.Tiers...)
	if err == nil && in.Fine {
		s, err = s.Finer()
	}
	if err == nil && in.Media {
		s, err = s.Seeing()
	}
	if err == nil && in.Drafts {
		s, err = s.Drafting()
	}
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
		return fmt.Errorf("%s: %w", f.file.Name(), err)
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
		return has, fmt.Errorf("%s: %w", f.file.Name(), err)
	}
	if f.Loaded != nil {
		f.Loaded(f.model.WeightBytes())
	}
	free := f.Budget.Free()
	has.Free = free - min(free, need.Activations)
	for _, g := range f.model.Layout {
		has.Units = append(has.Units, g.Bytes)
	}
	has.Computed = f.model.ComputedHash()
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
		_ = r.Interleave(f.Nodes) // where that is forbidden, pages are on the nodes of the threads that write them first
		f.units = append(f.units, r)
	}
	f.limits = l
	return f.run()
}

// run makes what runs the model.
func (f *Follower) run() (err error) {
	l := f.limits
	f.runner, err = NewRunner(f.model, RunnerConfig{
		Pool: f.Pool, Budget: f.Budget, MaxTokens: l.MaxTokens, MaxSeqs: l.MaxSeqs, MaxBlocks: l.MaxBlocks, MaxOut: l.MaxOut,
	})
	if err != nil {
		f.runner = nil
		return err
	}
	for i, g := range f.model.Layout {
		f.runner.batch.SetState(i, f.units[i].Bytes(), g.Bytes)
	}
	if n := f.runner.brings; n > 0 && f.rows == nil {
		if f.rows, err = f.Budget.Alloc("rows of pictures and sounds", uint64(l.MaxTokens*n*4)); err != nil {
			return err
		}
	}
	wide := f.runner.brings
	if f.model.Drafts() {
		wide = max(wide, f.model.NextWidth())
	}
	if n := mostMessage + 4*l.MaxTokens*wide; n > len(f.room) {
		f.room = make([]byte, n)
	}
	if l.Moves && f.mover == nil {
		if f.mover, err = f.model.NewMover(l.Shifts); err != nil {
			return err
		}
	}
	return f.runner.SetAdapters(f.adapters)
}

// sleep releases the weights and what runs them.
func (f *Follower) sleep() {
	if f.mover != nil {
		f.mover.Close()
		f.mover = nil
	}
	f.drop()
	if f.runner != nil {
		f.runner.Close()
		f.runner = nil
	}
	if f.model != nil {
		f.model.Close()
		f.model = nil
	}
	if f.file != nil {
		f.file.Cold()
	}
}

// wake loads them again. If it cannot, it sleeps on.
func (f *Follower) wake(ctx context.Context, body []byte) error {
	var u Use
	if err := json.Unmarshal(body, &u); err != nil {
		return err
	}
	switch {
	case f.survey == nil || f.units == nil:
		return fmt.Errorf("a model that is not there is to wake: %w", ErrRank)
	case f.model != nil:
		return nil // rank 0 could not fall asleep
	}
	u.Threads, u.Places = f.Pool.Threads(), 1
	f.use = u
	err := f.file.Unchanged()
	if err == nil {
		_, err = f.load(ctx)
	}
	if err == nil {
		err = f.run()
	}
	if err != nil {
		f.sleep()
	}
	return err
}

// words returns the 32-bit numbers of a message.
func words(body []byte) []int32 {
	list := make([]int32, len(body)/4)
	for i := range list {
		list[i] = int32(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return list
}

// close releases everything: another model may be loaded.
func (f *Follower) close() {
	f.sleep()
	for _, a := range f.adapters {
		if a != nil {
			a.Close()
		}
	}
	for _, r := range append(f.units, f.rows) {
		if r != nil {
			r.Close()
		}
	}
	if f.taken != nil {
		f.taken.Release()
	}
	if f.file != nil {
		f.file.Close()
	}
	f.units, f.rows, f.taken, f.survey, f.adapters, f.file = nil, nil, nil, nil, nil, nil
}
