package models

import (
	"cmp"
	"slices"
	"time"
)

// weigh sets the value of keeping a model: what loading it costs per byte, times its uses, above that of what was evicted
// last (GreedyDual-Size with frequency). The caller holds the lock.
func (s *Set[M]) weigh(e *entry[M]) {
	e.value = s.level + max(e.uses, 1)*e.cost.Seconds()/float64(max(e.inst.Bytes(), 1))
}

// makeRoom frees the memory that a model needs, and at least so much if other models have it: first what is reserved and
// unused, then weights of models that nobody uses, then caches, then what sleeping models keep. Where that is not enough,
// models that have been in memory for their time have no new leases until it is. The caller holds the lock, which is
// released meanwhile.
func (s *Set[M]) makeRoom(e *entry[M], least uint64) error {
	if err := s.wanted(e); err != nil {
		return err
	}
	need, err := s.need(e)
	for err == nil {
		short, enough := uint64(0), true
		if s.c.Memory != nil {
			free := s.c.Memory.Free()
			short, enough = max(need, least)-min(max(need, least), free), free >= need
		}
		if short == 0 && !s.crowded(e) {
			s.stay() // others may have gone before those that were asked to
			return nil
		}
		switch {
		case short > 0 && s.free(s.c.Memory.Spare, short):
		case s.evict(e, short > 0):
		case short > 0 && s.free(s.c.Memory.Trim, short):
		case short > 0 && s.evictAsleep(e):
		default:
			d, others := s.yield(e, short)
			switch {
			case others:
				err = s.wait(e, d)
			case s.loads(e) > 0:
				err = s.wait(e, 0)
			case enough: // and nobody has more
				return nil
			case e.inst != nil: // what it keeps while it sleeps takes the memory
				s.close(e)
				need, err = s.need(e)
			default: // what takes the memory is no model
				if need, err = s.need(e); err == nil {
					err = s.wait(e, time.Second)
				}
			}
			continue
		}
		err = s.wanted(e)
	}
	return err
}

// close releases what a model keeps that is not in use. The caller holds the lock, which is released meanwhile: until it is
// closed, what it has counts as its own.
func (s *Set[M]) close(e *entry[M]) {
	inst := e.inst
	s.mu.Unlock()
	s.end(e, inst)
	s.mu.Lock()
	e.inst = nil
}

// end closes an instance. One that panics is gone all the same.
func (s *Set[M]) end(e *entry[M], inst Instance[M]) {
	_ = s.guard(e, func() error {
		inst.Close()
		return nil
	})
}

// need returns the memory that a model needs, or why there is too little for it even alone. The caller has the turn, and holds
// the lock, which is released meanwhile.
func (s *Set[M]) need(e *entry[M]) (uint64, error) {
	if s.c.Memory == nil {
		return 0, nil
	}
	n, err := s.needIn(e, e.spec.Elsewhere) // its head may come from there
	for held := -1; ; {
		if _, short := missing(err); !short || held == 0 {
			return n, err
		}
		// Perhaps only by what nobody uses any more, by what moved while it was summed up, or by what other loads hold: that may
		// be had when they have ended. From here on the turn is kept, so no other begins, and they are no more to wait for.
		for held > 0 && s.loads(e) == held {
			if err := s.wait(e, 0); err != nil {
				return 0, err
			}
		}
		s.collect()
		held = s.loads(e)
		n, err = s.needIn(e, false)
	}
}

// needIn returns the memory that a model needs in the room that there is now, or why that is too little. It may give the turn
// away while it asks. The caller holds the lock, which is released meanwhile.
func (s *Set[M]) needIn(e *entry[M], give bool) (n uint64, err error) {
	inst, room := e.inst, s.room(e)
	if give {
		s.give(e)
	}
	s.mu.Unlock()
	err = s.guard(e, func() (err error) {
		if inst != nil {
			n, err = inst.Need(room)
		} else {
			n, err = e.spec.Need(room)
		}
		return err
	})
	s.mu.Lock()
	if give {
		if err := s.take(e); err != nil {
			return 0, err
		}
	}
	return n, err
}

// room returns the memory that a model could have alone. What others have changes while it is summed up: what they give
// back then, or take, is not missing from the sum. The caller holds the lock.
func (s *Set[M]) room(e *entry[M]) uint64 {
	sum, before := uint64(0), s.c.Memory.Free()
	for _, o := range s.held() {
		if o != e && o.inst != nil {
			sum += o.inst.Bytes()
		}
	}
	return sum + max(before, s.c.Memory.Free())
}

// beside reports whether other models take memory. The caller holds the lock.
func (s *Set[M]) beside(e *entry[M]) bool {
	return s.loads(e) > 0 || slices.ContainsFunc(s.held(), func(o *entry[M]) bool { return o != e && o.inst != nil })
}

// loads returns how many other models are being loaded elsewhere: each takes memory, and has the place of one of so many that
// may be loaded. The caller holds the lock.
func (s *Set[M]) loads(e *entry[M]) (n int) {
	for _, o := range s.held() {
		if o != e && o.away() {
			n++
		}
	}
	return n
}

// collect frees what nothing uses any more, and returns how many bytes are free then. The caller holds the lock, which is
// released meanwhile.
func (s *Set[M]) collect() uint64 {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.c.Memory.Collect()
	return s.c.Memory.Free()
}

// free calls a function that frees memory, without the lock, and reports whether it did.
func (s *Set[M]) free(f func(uint64) uint64, n uint64) bool {
	s.mu.Unlock()
	defer s.mu.Lock()
	return f(n) > 0
}

// crowded reports whether as many models are in memory as may be. The caller holds the lock.
func (s *Set[M]) crowded(e *entry[M]) bool {
	n := 0
	for _, o := range s.held() {
		if o != e && (o.state == Loaded || o.away()) {
			n++
		}
	}
	return s.c.Most > 0 && n >= s.c.Most
}

// stays returns how much longer a model keeps its memory from others. The caller holds the lock.
func (s *Set[M]) stays(e *entry[M]) time.Duration {
	return time.Until(e.since.Add(max(s.c.Stay, e.cost)))
}

// others returns the other models that are in some state: where memory is wanted the least valuable first, and where only the
// count is too high, the one that was used least recently. The caller holds the lock.
func (s *Set[M]) others(e *entry[M], st State, memory bool) []*entry[M] {
	var all []*entry[M]
	for _, o := range s.entries {
		if o != e && o.state == st && !o.moving {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b *entry[M]) int {
		if !memory {
			return a.used.Compare(b.used)
		}
		return cmp.Compare(a.value, b.value)
	})
	return all
}

// evict makes the first of others sleep that nobody uses and that has been in memory for its time, and reports whether there
// was one. The caller holds the lock, which is released meanwhile.
func (s *Set[M]) evict(e *entry[M], memory bool) bool {
	for _, o := range s.others(e, Loaded, memory) {
		if !memory && o.leases == 0 && s.stays(o) > 0 {
			return false // it is the one that goes, when it has had its time
		}
		if o.leases == 0 && s.stays(o) <= 0 {
			if o.evicted = true; memory { // what is only one too many says nothing of the worth of memory
				s.level = max(s.level, o.value)
			}
			s.move(o, Sleeping)
			return true
		}
	}
	return false
}

// evictAsleep unloads the least valuable model that sleeps, and reports whether there was one. The caller holds the lock,
// which is released meanwhile.
func (s *Set[M]) evictAsleep(e *entry[M]) bool {
	for _, o := range s.others(e, Sleeping, true) {
		s.move(o, Unloaded)
		return true
	}
	return false
}

// yield makes models that have been in memory for their time take no new leases, as many as would free n bytes. It returns
// after how long there may be more of them, 0 for never, and whether there are any that can be waited for. The caller holds
// the lock.
func (s *Set[M]) yield(e *entry[M], n uint64) (next time.Duration, any bool) {
	freed := uint64(0)
	for _, o := range s.held() { // those that go already
		if o != e && (o.leaving || o.moving) {
			any = true
			if o.inst != nil {
				freed += o.inst.Bytes()
			}
		}
	}
	all := s.others(e, Loaded, n > 0)
	if idle := slices.IndexFunc(all, func(o *entry[M]) bool { return o.leases == 0 && !o.leaving }); n == 0 && idle >= 0 {
		all = all[idle : idle+1] // the others stay
	}
	for _, o := range all {
		if o.leaving {
			continue
		}
		any = true
		if d := s.stays(o); d > 0 {
			if next == 0 || d < next {
				next = d
			}
		} else if freed < n || n == 0 && freed == 0 {
			o.evicted = true
			s.retire(o, Sleeping) // at once where its last lease has ended by now
			freed += o.inst.Bytes()
		}
	}
	return next, any
}
