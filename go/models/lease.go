package models

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Options are what a request says about the model's stay in memory.
type Options struct {
	Load      *bool          // whether to load it where it is not; nil: as configured
	KeepAlive *time.Duration // how long it stays loaded afterwards, negative for good; nil: as configured
	Flow      string         // whose request it is: those of a flow share the places of those who wait
}

// A Lease is the right to use a model until it is released, once.
type Lease[M any] struct {
	Model *M
	once  sync.Once
	free  func()
	again func() *Lease[M]
}

// Again returns another lease of the same model, which may be held longer than this one. This one is not released yet.
func (l *Lease[M]) Again() *Lease[M] { return l.again() }

// Release releases the lease. Releasing again is a no-op.
func (l *Lease[M]) Release() { l.once.Do(l.free) }

// Acquire leases the model of a name, the default if that is empty; it waits while the model is loaded. The error is a
// *NotFoundError, a *NotLoadedError, a *BusyError, a *LoadError, ErrLoading, ErrClosed, or that of ctx.
func (s *Set[M]) Acquire(ctx context.Context, name string, o Options) (*Lease[M], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(name)
	switch {
	case s.closed:
		return nil, ErrClosed
	case err != nil:
		return nil, err
	case e.starting:
		return nil, ErrLoading
	case e.state == Loaded && !e.leaving && !e.moving:
		e.leases++
		return s.lease(e, o), nil
	}
	load := !s.c.Manual
	if o.Load != nil {
		load = *o.Load
	}
	if e.state == Unloaded && e.round == nil && !load {
		return nil, &NotLoadedError{e.spec.Names[0]}
	}
	busy := &BusyError{e.spec.Names[0], s.c.Queue}
	if r := e.round; r != nil && s.c.Queue > 0 && len(r.waiters) >= s.c.Queue && !r.yield(o.Flow) {
		return nil, busy
	}
	r, w := s.want(e), &waiter{o.Flow, make(chan struct{})}
	r.waiters = append(r.waiters, w)
	s.mu.Unlock()
	select {
	case <-r.done:
	case <-w.out:
	case <-ctx.Done():
	}
	s.mu.Lock()
	select {
	case <-w.out:
		return nil, busy
	default:
	}
	select {
	case <-r.done:
		if r.err != nil {
			return nil, r.err
		}
		l := s.lease(e, o)
		if err := ctx.Err(); err != nil {
			l.once.Do(func() { s.release(e) })
			return nil, err
		}
		return l, nil
	default:
		r.remove(w)
		s.wake()
		return nil, ctx.Err()
	}
}

// A waiter is a request that waits for a model.
type waiter struct {
	flow string
	out  chan struct{} // closed when it loses its place
}

func (r *round) remove(w *waiter) {
	r.waiters = slices.DeleteFunc(r.waiters, func(o *waiter) bool { return o == w })
}

// yield makes place for a request of a flow: the newest of the flow with the most loses its own, if that flow has more
// than this one will have. It reports whether there is place.
func (r *round) yield(flow string) bool {
	n := map[string]int{}
	for _, w := range r.waiters {
		n[w.flow]++
	}
	most, newest := n[flow]+1, (*waiter)(nil)
	for _, w := range r.waiters {
		if n[w.flow] > most || newest != nil && w.flow == newest.flow {
			most, newest = n[w.flow], w
		}
	}
	if newest == nil {
		return false
	}
	r.remove(newest)
	close(newest.out)
	return true
}

// lease returns a lease that is counted already. The caller holds the lock.
func (s *Set[M]) lease(e *entry[M], o Options) *Lease[M] {
	e.keep = s.keep()
	if o.KeepAlive != nil {
		e.keep = *o.KeepAlive
	}
	e.uses++
	s.weigh(e)
	l := &Lease[M]{Model: e.inst.Model()}
	l.free = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(e)
	}
	l.again = func() *Lease[M] {
		s.mu.Lock()
		defer s.mu.Unlock()
		e.leases++
		return s.lease(e, Options{KeepAlive: &e.keep})
	}
	return l
}

// release ends a lease. The caller holds the lock.
func (s *Set[M]) release(e *entry[M]) {
	e.used = time.Now()
	if e.leases--; e.leases > 0 {
		return
	}
	if e.leaving {
		s.retire(e, e.next)
	} else {
		s.rest(e)
	}
	s.wake()
}

// want returns the wait for a model, which is queued to be loaded. The caller holds the lock.
func (s *Set[M]) want(e *entry[M]) *round {
	if e.round == nil {
		e.round = &round{done: make(chan struct{})}
		s.queue = append(s.queue, e)
		s.start()
		s.wake()
	}
	return e.round
}

// wake makes a load look again whether it can begin. The caller holds the lock.
func (s *Set[M]) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}
