package models

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// move takes a model without leases to a state in which it needs less memory. The caller holds the lock, which is released
// meanwhile.
func (s *Set[M]) move(e *entry[M], to State) {
	e.moving = true
	inst := e.inst
	s.mu.Unlock()
	if to == Sleeping && s.guard(e, inst.Sleep) != nil {
		to = Unloaded
	}
	if to == Unloaded {
		s.end(e, inst)
	}
	s.mu.Lock()
	again := e.leaving // it was retired meanwhile
	if e.moving, e.leaving = false, false; to == Unloaded {
		e.inst = nil
		s.forget()
	}
	e.part = 0
	s.set(e, to, false)
	s.rest(e)
	if again || e.removed {
		s.retire(e, Unloaded)
	}
	s.wake()
}

// retire makes a model move once it has no leases and does not move already. The caller holds the lock.
func (s *Set[M]) retire(e *entry[M], to State) {
	switch {
	case e.inst == nil || e.state == Loading || e.state == to || s.closed:
		return
	case e.leases > 0 || e.moving:
		e.leaving, e.next = true, to
	default:
		e.moving, e.leaving = true, false // from now on, and not from when the goroutine runs
		go func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.move(e, to)
		}()
	}
}

// Unload unloads a model: at once, or when the requests that use it have ended. Later ones load it again. A load for which
// no request waits ends unfinished.
func (s *Set[M]) Unload(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(name)
	switch {
	case err != nil:
		return err
	case e.state == Unloaded:
		return &NotLoadedError{e.spec.Names[0]}
	case e.state == Loading && (e.starting || e.round == nil || len(e.round.waiters) > 0):
		return fmt.Errorf("%w: %q", ErrLoading, e.spec.Names[0])
	case e.state == Loading:
		e.round.asked = false
		s.stop(e)
		return nil
	}
	s.retire(e, Unloaded)
	return nil
}

// rest starts the time after which an unused model sleeps or is unloaded. The caller holds the lock.
func (s *Set[M]) rest(e *entry[M]) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if e.inst == nil || e.leases > 0 || s.closed {
		return
	}
	var ends []time.Duration
	if e.keep >= 0 {
		ends = append(ends, e.keep)
	}
	if s.c.Sleep > 0 && e.state == Loaded {
		ends = append(ends, s.c.Sleep)
	}
	if len(ends) > 0 {
		e.timer = time.AfterFunc(time.Until(e.used.Add(slices.Min(ends))), func() { s.expire(e) })
	}
}

// expire takes a model to where its time unused has brought it.
func (s *Set[M]) expire(e *entry[M]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.inst == nil || e.leases > 0 || e.moving || e.state == Loading {
		return
	}
	switch unused := time.Since(e.used); {
	case e.keep >= 0 && unused >= e.keep:
		s.retire(e, Unloaded)
	case s.c.Sleep > 0 && unused >= s.c.Sleep && e.state == Loaded:
		e.evicted = false
		s.retire(e, Sleeping)
	default:
		s.rest(e)
	}
}

// Shed frees memory that unused models take, whatever their time in memory, about n bytes, and returns how many.
func (s *Set[M]) Shed(n uint64) (freed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range []struct{ from, to State }{{Loaded, Sleeping}, {Sleeping, Unloaded}} {
		for _, o := range s.others(nil, step.from, true) {
			if freed >= n || s.closed {
				return freed
			}
			if o.leases > 0 || o.moving || o.state != step.from {
				continue
			}
			before := o.inst.Bytes()
			o.evicted = true
			s.move(o, step.to)
			after := uint64(0)
			if o.inst != nil {
				after = o.inst.Bytes()
			}
			freed += before - min(before, after)
		}
	}
	return freed
}

// Close refuses all that comes, and unloads all models when finish, called for those that are loaded concurrently, has
// returned. Where ctx ends while a model is being loaded, none is unloaded, and it returns false.
func (s *Set[M]) Close(ctx context.Context, finish func(Instance[M])) bool {
	s.mu.Lock()
	s.closed = true
	for _, e := range slices.Clone(s.queue) {
		if e.loading {
			s.stop(e)
		} else {
			s.dequeue(e, ErrClosed)
		}
	}
	s.wake()
	for s.running || slices.ContainsFunc(s.held(), func(e *entry[M]) bool { return e.moving || e.loading }) {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
		s.mu.Lock()
	}
	var all []Instance[M]
	for _, e := range s.held() {
		if e.timer != nil {
			e.timer.Stop()
		}
		if e.inst != nil {
			all = append(all, e.inst)
		}
	}
	for w := range s.watchers {
		s.drop(w)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, inst := range all {
		wg.Go(func() { finish(inst) })
	}
	wg.Wait()
	for _, inst := range all {
		inst.Close()
	}
	return true
}
