package models

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What has to go is what costs the least to load again per byte; leases stay.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 30}
		s := newSet(t, Config{Memory: m}, m.spec("dear", 10, 9*time.Second), m.spec("cheap", 10, time.Second), m.spec("held", 10, 0),
			m.spec("new", 12, 0), m.spec("huge", 31, 0))
		held := lease(t, s, "held")
		lease(t, s, "cheap").Release()
		lease(t, s, "dear").Release()
		time.Sleep(time.Minute)
		lease(t, s, "new").Release()
		want(t, s, "two had to go", "dear sleeping, cheap sleeping, held loaded 1, new loaded, huge unloaded")
		lease(t, s, "dear").Release()
		want(t, s, "room was there", "dear loaded, cheap sleeping, held loaded 1, new sleeping, huge unloaded")
		var e *LoadError
		if _, err := s.Acquire(t.Context(), "huge", Options{}); !errors.As(err, &e) || !strings.Contains(err.Error(), "it needs 31, 30 are free") {
			t.Errorf("one that does not fit: %v", err)
		}
		if st, _ := s.Status("huge"); st.Err == nil || st.State != Unloaded {
			t.Errorf("%+v", st)
		}
		held.Release()
		if n := s.Shed(15); n < 15 {
			t.Errorf("%d bytes were freed", n)
		}
		if m.most > m.limit {
			t.Errorf("%d bytes of %d", m.most, m.limit)
		}
	})
}

// Where more models may not be loaded and there is memory for them, the one goes that was used least recently, whatever it costs
// to load it again; one that is in use stays while others are not.
func TestEvictionByCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m, Most: 2, Stay: 5 * time.Second}, m.spec("dear", 10, 9*time.Second), m.spec("cheap", 10, time.Second), m.spec("new", 10, time.Second))
		lease(t, s, "dear").Release()
		lease(t, s, "cheap").Release()
		time.Sleep(time.Minute)
		lease(t, s, "new").Release()
		want(t, s, "dear was used first", "dear sleeping, cheap loaded, new loaded")
		time.Sleep(time.Minute)
		lease(t, s, "cheap").Release()
		time.Sleep(time.Minute)
		lease(t, s, "dear").Release()
		want(t, s, "cheap was used since", "dear loaded, cheap loaded, new sleeping")
		time.Sleep(time.Minute)
		held := lease(t, s, "cheap")
		lease(t, s, "new").Release()
		want(t, s, "cheap is in use", "dear sleeping, cheap loaded 1, new loaded")
		time.Sleep(time.Minute)
		other := lease(t, s, "new")
		go func() { lease(t, s, "dear").Release() }()
		want(t, s, "both are in use", "dear loading, cheap loaded 1, new loaded 1")
		other.Release()
		want(t, s, "the first that is not goes", "dear loading, cheap loaded 1, new sleeping")
		held.Release()
		lease(t, s, "cheap").Release()
		time.Sleep(time.Minute)
		want(t, s, "and no other", "dear loaded, cheap loaded, new sleeping")
		lease(t, s, "new").Release() // cheap goes
		time.Sleep(time.Second)
		lease(t, s, "dear").Release()
		want(t, s, "dear was used last", "dear loaded, cheap sleeping, new loaded")
		start := time.Now()
		lease(t, s, "cheap").Release()
		if took := time.Since(start); took < 5*time.Second { // what is left of them, and one to load
			t.Errorf("new had %v", took)
		}
		want(t, s, "new had its time, and goes all the same", "dear loaded, cheap loaded, new sleeping")
	})
}

// useOn uses a model for a second again and again until ctx ends, and returns how often.
func useOn(ctx context.Context, s *Set[string], name string) (n int64) {
	for {
		l, err := s.Acquire(ctx, name, Options{})
		if err != nil {
			return n
		}
		time.Sleep(time.Second)
		l.Release()
		n++
	}
}

// Two models that do not fit together have turns, of the time at least that loading takes, however many want them.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 15}
		s := newSet(t, Config{Memory: m, Stay: 5 * time.Second}, m.spec("a", 10, 10*time.Second), m.spec("b", 10, 10*time.Second))
		done := map[string]*atomic.Int64{"a": {}, "b": {}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for name, n := range done {
			for range 4 {
				wg.Go(func() { n.Add(useOn(ctx, s, name)) })
			}
		}
		wg.Wait()
		s.Close(t.Context(), func(Instance[string]) {})
		a, b := done["a"].Load(), done["b"].Load()
		if a < 500 || b < 500 || max(a, b) > min(a, b)*5/4 {
			t.Errorf("a was used %d times and b %d times", a, b)
		}
		if n := m.loads.Load() + m.sleep.Load(); n > 40 {
			t.Errorf("%d loads and sleeps in 10 minutes", n)
		}
	})
}

// A model that leaves for one which is not wanted any more stays; one that is unloaded while it is used waits for its leases,
// and those that come meanwhile for the model to be loaded again.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 15}
		s := newSet(t, Config{Memory: m}, m.spec("a", 10, 0), m.spec("b", 10, 0), m.spec("c", 5, 0))
		l := lease(t, s, "a")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := s.Acquire(ctx, "b", Options{}); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		}()
		synctest.Wait()
		var second atomic.Bool
		go func() { lease(t, s, "a").Release(); second.Store(true) }()
		want(t, s, "b waits", "a loaded 1, b loading, c unloaded")
		if second.Load() {
			t.Error("a had a new lease while b waits for it")
		}
		cancel()
		want(t, s, "b is not wanted", "a loaded 1, b unloaded, c unloaded")
		if !second.Load() {
			t.Error("a has no new leases")
		}
		if err := s.Unload("a"); err != nil {
			t.Fatal(err)
		}
		second.Store(false)
		go func() { lease(t, s, "a").Release(); second.Store(true) }()
		lease(t, s, "c").Release()
		want(t, s, "a is unloaded", "a loaded 1, b unloaded, c loaded")
		l.Release()
		want(t, s, "and loaded again", "a loaded, b unloaded, c loaded")
		if !second.Load() || m.loads.Load() != 3 {
			t.Errorf("%v, %d loads", second.Load(), m.loads.Load())
		}
		l = lease(t, s, "c")
		s.Remove("c")
		if _, err := s.Acquire(t.Context(), "c", Options{}); err == nil {
			t.Error("a removed model is there")
		}
		l.Release()
		synctest.Wait()
		if m.used != 10 {
			t.Errorf("%d bytes are taken", m.used)
		}
	})
}

// A queue may become empty while its first model is waited for to leave.
func TestQueueGone(t *testing.T) {
	for _, end := range []func(*Set[string]){
		func(s *Set[string]) { s.Remove("a") },
		func(s *Set[string]) { s.Close(context.Background(), func(Instance[string]) {}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t, Config{}, (&machine{limit: 15}).spec("a", 10, 0))
			l := lease(t, s, "a")
			if err := s.Unload("a"); err != nil {
				t.Fatal(err)
			}
			got := make(chan error)
			go func() {
				_, err := s.Acquire(t.Context(), "a", Options{})
				got <- err
			}()
			synctest.Wait()
			end(s)
			if err := <-got; err == nil {
				t.Error("a model that is gone was leased")
			}
			l.Release()
		})
	}
}

// What makes room may be gone again when the model is loaded: caches of others grow, or one goes that has weights in common
// with it. It is loaded nevertheless, when others had their time in memory.
func TestRoomGone(t *testing.T) {
	const stay = 5 * time.Second
	grows := func(m *machine, spec Spec[string]) Spec[string] { // what was free is taken for a while when the load begins
		load, first := spec.Load, true
		spec.Load = func(ctx context.Context, progress func(float64)) (Instance[string], error) {
			if n := m.Free(); first && m.take(n) == nil {
				first = false
				time.AfterFunc(time.Second, func() { m.give(n) })
			}
			return load(ctx, progress)
		}
		return spec
	}
	shares := func(m *machine, spec Spec[string]) Spec[string] { // half of its weights are those of the other, until that goes
		spec.Need = func(uint64) (uint64, error) { return 5, nil }
		return spec
	}
	for _, tt := range []struct {
		what   string
		limit  uint64
		change func(*machine, Spec[string]) Spec[string]
		want   string
	}{
		{"others grow", 26, grows, "a loaded, b loaded"},
		{"weights in common go", 16, shares, "a sleeping, b loaded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{limit: tt.limit}
			s := newSet(t, Config{Stay: stay, Memory: m}, m.spec("a", 10, 0), tt.change(m, m.spec("b", 10, 0)))
			lease(t, s, "a").Release()
			start := time.Now()
			lease(t, s, "b").Release()
			if took := time.Since(start); took > stay {
				t.Errorf("%s: it took %v", tt.what, took)
			}
			want(t, s, tt.what, tt.want)
			if m.most > m.limit {
				t.Errorf("%s: %d bytes of %d", tt.what, m.most, m.limit)
			}
		})
	}
}

// Where a model has all memory, and what nothing uses any more takes some of it, that is collected; a model that does not fit
// even then is refused.
func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 15}
		spec := m.spec("a", 10, 0)
		late := false // only the load finds that it does not fit
		spec.Need = func(room uint64) (uint64, error) {
			if room < 10 && !late {
				return 0, fmt.Errorf("a: %w", noRoom(10-room))
			}
			return min(room, 10), nil
		}
		s := newSet(t, Config{Memory: m}, spec, m.spec("b", 1, 0))
		for _, late = range []bool{false, true} {
			m.garbage = 8
			if err := m.take(8); err != nil {
				t.Fatal(err)
			}
			lease(t, s, "a").Release()
			if err := s.Unload("a"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if err := m.take(8); err != nil {
			t.Fatal(err)
		}
		for _, late = range []bool{false, true} {
			var e *LoadError
			if _, err := s.Acquire(t.Context(), "a", Options{}); !errors.As(err, &e) {
				t.Errorf("one that does not fit: %v", err)
			}
		}
	})
}

// A model whose last lease ends while caches are looked at for memory makes room as well.
func TestReleasedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 15}
		var l *Lease[string]
		s := newSet(t, Config{Memory: &trimmed{m, func() { l.Release() }}}, m.spec("a", 10, 0), m.spec("b", 10, 0))
		l = lease(t, s, "a")
		lease(t, s, "b").Release()
		want(t, s, "b was wanted", "a sleeping, b loaded")
	})
}

// A model whose time in memory ends between two looks for room, and that nobody uses, goes at once: no lease is left whose end
// would make it.
func TestStayEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stay = 5 * time.Second
		m := &machine{limit: 15}
		s := newSet(t, Config{Stay: stay, Memory: &trimmed{m, func() { time.Sleep(stay) }}}, m.spec("a", 10, 0), m.spec("b", 10, 0))
		lease(t, s, "a").Release()
		lease(t, s, "b").Release()
		want(t, s, "b was wanted", "a sleeping, b loaded")
		lease(t, s, "a").Release()
		want(t, s, "a was wanted", "a loaded, b sleeping")
	})
}

// trimmed is a machine that does something when its caches are trimmed.
type trimmed struct {
	*machine
	trim func()
}

func (m *trimmed) Trim(uint64) uint64 { m.trim(); return 0 }
