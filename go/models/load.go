package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
)

// Load asks for a model to be loaded, and does not wait for it. The error is as Acquire's.
func (s *Set[M]) Load(name string) error {
	_, err := s.ask(name)
	return err
}

// Await loads a model, and returns when it is loaded.
func (s *Set[M]) Await(name string) error {
	r, err := s.ask(name)
	if err != nil || r == nil {
		return err
	}
	<-r.done
	return r.err
}

// ask returns the wait for a model that is loaded in any case; nil if it is loaded.
func (s *Set[M]) ask(name string) (*round, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(name)
	switch {
	case s.closed:
		return nil, ErrClosed
	case err != nil:
		return nil, err
	case e.state == Loaded && !e.leaving && !e.moving:
		return nil, nil
	}
	r := s.want(e)
	r.asked = true
	return r, nil
}

// start has a goroutine load what is queued, unless there is one. The caller holds the lock.
func (s *Set[M]) start() {
	if !s.running && slices.ContainsFunc(s.queue, func(e *entry[M]) bool { return !e.loading }) {
		s.running = true
		go s.run()
	}
}

// run loads what is queued, one at a time: two loads at once would take as long, and hold more memory. While one waits for
// another machine, another goroutine has the turn; one that wants it back has it after the next model.
func (s *Set[M]) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		first := slices.IndexFunc(s.queue, func(e *entry[M]) bool { return !e.loading })
		if first < 0 {
			break
		}
		// One that still has to end what it does is waited for, but not by the others.
		i := slices.IndexFunc(s.queue, func(e *entry[M]) bool { return !e.loading && !e.moving && !e.leaving })
		if i < 0 && len(s.line) == 0 {
			e := s.queue[first]
			if err := s.wait(e, 0); err != nil {
				s.dequeue(e, err)
			}
			continue
		}
		if i >= 0 {
			e := s.queue[i]
			e.loading = true
			err := s.bring(e)
			e.loading = false
			if !errors.Is(err, errNobody) || s.wanted(e) != nil { // else somebody does by now
				s.settle(e, err)
			}
			if e.apart { // the turn is another's
				e.apart = false
				s.start()
				s.wake()
				return
			}
		}
		if len(s.line) > 0 {
			break
		}
	}
	s.running = false
	s.hand()
	s.start()
}

// away reports whether a model is being loaded without the turn.
func (e *entry[M]) away() bool { return e.apart && e.cancel != nil }

// give gives the turn to another goroutine, while a model waits for another machine. What is queued is before those that had
// the turn already, and run lets one of these have it after each model: so neither wait for ever. The caller holds the lock.
func (s *Set[M]) give(e *entry[M]) {
	e.apart, s.running = true, false
	s.start()
	s.hand()
}

// hand gives the turn, if it is nobody's, to the first of those that want it back. The caller holds the lock.
func (s *Set[M]) hand() {
	if !s.running && len(s.line) > 0 {
		s.line[0].apart, s.running = false, true
		s.line = slices.Delete(s.line, 0, 1)
	}
	s.wake()
}

// take waits for the turn, in the order in which it was asked for. The turn is the model's unless it still is apart, even if
// there is an error. The caller holds the lock, which is released meanwhile.
func (s *Set[M]) take(e *entry[M]) error {
	s.line = append(s.line, e)
	s.hand()
	for e.apart {
		if err := s.wait(e, 0); err != nil {
			s.line = slices.DeleteFunc(s.line, func(o *entry[M]) bool { return o == e })
			return err
		}
	}
	return nil
}

// errNobody reports that nobody waits for a model any more.
var errNobody = errors.New("nobody waits for the model")

// bring loads or wakes a model. The caller holds the lock, which is released meanwhile.
func (s *Set[M]) bring(e *entry[M]) error {
	if err := s.wanted(e); err != nil || e.state == Loaded { // nobody needed its memory after all
		return err
	}
	was := e.state
	e.part, e.err = 0, nil
	s.set(e, Loading, was == Unloaded)
	err := s.fill(e)
	if err == nil {
		e.starting, e.part = false, 1
		s.set(e, Loaded, was == Unloaded)
		return nil
	}
	if e.part = 0; e.inst == nil {
		was = Unloaded
	}
	if !errors.Is(err, errNobody) && !errors.Is(err, ErrClosed) {
		e.err = err
	}
	s.set(e, was, false)
	return err
}

// mostAlone is how often a model is tried again that has the memory for itself.
const mostAlone = 3

// fill makes room for a model and loads it. Between the two something else may take the memory, such as caches of other
// models, or the need may grow, where a model goes that has weights in common with it: then again, with more room each
// time. The caller holds the lock, which is released meanwhile.
func (s *Set[M]) fill(e *entry[M]) error {
	least := uint64(0)
	for alone := 0; ; {
		if err := s.makeRoom(e, least); err != nil {
			return err
		}
		start := time.Now()
		err := s.load(e)
		if err == nil {
			e.cost, e.since, e.used, e.uses = time.Since(start), time.Now(), time.Now(), 0
			s.weigh(e)
			return nil
		}
		lack, short := missing(err)
		if !short || s.c.Memory == nil {
			if e.inst != nil && !errors.Is(err, errNobody) { // it cannot be woken: the next request loads it
				s.close(e)
			}
			return err
		}
		takes, apart := s.c.Memory.Free()+lack, e.apart // at least, if nothing was freed since it failed
		if apart {
			if err := s.take(e); err != nil {
				return err
			}
		}
		switch others := s.beside(e); {
		case e.starting && !s.evict(e, true): // all that are loaded at the start are to fit beside each other
			return err
		case others || e.starting:
			least = max(takes, least+least/16+1)
		case e.inst != nil: // what it keeps while it sleeps takes the memory
			s.close(e)
		default:
			// Beside one that was apart there may have been others, which are gone.
			if alone++; alone > mostAlone || s.collect() < takes && !apart {
				return err
			}
		}
	}
}

// missing returns how many bytes more would have done, and whether err is for want of memory at all.
func missing(err error) (n uint64, short bool) {
	var scarce interface{ Missing() uint64 }
	if !errors.As(err, &scarce) {
		return 0, false
	}
	return scarce.Missing(), true
}

// load calls the model's own function. The caller holds the lock, which is released meanwhile.
func (s *Set[M]) load(e *entry[M]) error {
	const step = 0.05 // of the progress that is told
	told := 0.0
	progress := func(part float64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.part = part
		if part >= told+step && part < 1 {
			told = part
			s.set(e, Loading, false)
		}
	}
	inst := e.inst
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e.cancel = cancel
	if e.spec.Elsewhere && !e.apart {
		s.give(e)
	}
	s.mu.Unlock()
	err := s.guard(e, func() (err error) {
		if inst != nil {
			return inst.Wake(ctx, progress)
		}
		inst, err = e.spec.Load(ctx, progress)
		return err
	})
	s.mu.Lock()
	if e.cancel = nil; e.apart {
		s.wake()
	}
	if err == nil {
		e.inst = inst
	} else if ctx.Err() != nil { // whatever it failed with
		err = cmp.Or(s.wanted(e), errNobody)
	}
	return err
}

// guard calls a function of a model's own: see Guard.
func (s *Set[M]) guard(e *entry[M], f func() error) error {
	return Guard(e.spec.Names[0], s.c.OnPanic, f)
}

// Guard calls what reads or runs the file of a model. A panic, in a goroutine of its own too if f returns it, becomes an
// error, of which told is told unless it is nil.
func Guard(name string, told func(*PanicError), f func() error) error {
	err := panics.Catch(f)
	if p := (*panics.Panic)(nil); told != nil && errors.As(err, &p) {
		told(&PanicError{name, p})
	}
	return err
}

// stop ends the load of a model: it is removed, nobody asks for it any more, or all end. The caller holds the lock.
func (s *Set[M]) stop(e *entry[M]) {
	if e.cancel != nil {
		e.cancel()
	}
	s.wake()
}

// stay has models stay that were to leave so that there is room for another: there is, or it is not wanted any more. The caller holds
// the lock.
func (s *Set[M]) stay() {
	for _, o := range s.entries {
		if o.leaving && o.next == Sleeping && !o.moving {
			if o.leaving = false; o.round != nil {
				s.dequeue(o, nil)
			}
		}
	}
}

// settle ends the wait for a model. The caller holds the lock.
func (s *Set[M]) settle(e *entry[M], err error) {
	s.stay()
	s.dequeue(e, err)
	if err == nil && e.leases == 0 {
		s.rest(e)
	}
	if e.removed {
		s.retire(e, Unloaded)
		s.forget()
	}
	s.wake()
}

// dequeue ends the wait for a model, with leases for all or an error. The caller holds the lock.
func (s *Set[M]) dequeue(e *entry[M], err error) {
	s.queue = slices.DeleteFunc(s.queue, func(o *entry[M]) bool { return o == e })
	r := e.round
	if r == nil {
		return
	}
	e.round = nil
	switch r.err = err; {
	case err == nil:
		e.leases += len(r.waiters)
	case !errors.Is(err, ErrClosed) && !errors.Is(err, errNobody):
		r.err = &LoadError{e.spec.Names[0], err}
	}
	close(r.done)
}

// wait waits for a change, for at most d unless that is 0. The error says why there is nothing to wait for any more. The
// caller holds the lock, which is released meanwhile.
func (s *Set[M]) wait(e *entry[M], d time.Duration) error {
	changed := s.changed
	s.mu.Unlock()
	var late <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-changed:
	case <-late:
	}
	s.mu.Lock()
	return s.wanted(e)
}

// wanted returns why a model need not be loaded. The caller holds the lock.
func (s *Set[M]) wanted(e *entry[M]) error {
	switch {
	case s.closed:
		return ErrClosed
	case e.removed:
		return fmt.Errorf("the model was removed")
	case e.round == nil || len(e.round.waiters) == 0 && !e.round.asked: // it is loaded after all, or they went
		return errNobody
	}
	return nil
}
