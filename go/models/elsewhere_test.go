package models

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// elsewhere is a model that comes from a slow machine, and its head too.
func (m *machine) elsewhere(name string, bytes uint64, took time.Duration) Spec[string] {
	spec := m.spec(name, bytes, took)
	need := spec.Need
	spec.Elsewhere, spec.Need = true, func(room uint64) (uint64, error) {
		time.Sleep(took / 100)
		return need(room)
	}
	return spec
}

// A load that waits for another machine holds up no other, neither one of a file here nor one of a third machine.
func TestSlowServerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m}, m.elsewhere("far", 10, time.Hour), m.elsewhere("farther", 10, 2*time.Hour),
			m.spec("a", 10, time.Second), m.spec("b", 10, time.Second))
		for _, name := range []string{"far", "a", "farther", "b"} {
			if err := s.Load(name); err != nil {
				t.Fatal(err)
			}
		}
		want(t, s, "at first", "far loading, farther unloaded, a loading, b unloaded") // those that are here are loaded one at a time
		time.Sleep(3 * time.Second)
		want(t, s, "seconds later", "far loading, farther loading, a loaded, b loaded")
		time.Sleep(time.Hour + 2*time.Minute)
		want(t, s, "an hour later", "far loaded, farther loading, a loaded, b loaded")
		if err := s.Await("farther"); err != nil || m.used != 40 || m.loads.Load() != 4 {
			t.Errorf("%v, %d bytes, %d loads", err, m.used, m.loads.Load())
		}
	})
}

// Memory that such a load holds is waited for, as is its place where so many models may be loaded: then the others take both.
func TestSlowServerHoldsItsMemory(t *testing.T) {
	for what, c := range map[string]struct {
		bytes uint64
		most  int
	}{"memory": {60, 0}, "places": {10, 1}} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{limit: 100}
			s := newSet(t, Config{Memory: m, Most: c.most}, m.elsewhere("far", c.bytes, time.Hour), m.spec("a", c.bytes, time.Second))
			begun := time.Now()
			if err := s.Load("far"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			lease(t, s, "a").Release() // when that has been in memory as long as loading it took
			if took := time.Since(begun); took < 2*time.Hour || took > 3*time.Hour {
				t.Errorf("%s: after %v", what, took)
			}
			want(t, s, what, "far sleeping, a loaded")
			if m.most > m.limit {
				t.Errorf("%s: %d bytes were taken", what, m.most)
			}
		})
	}
}

// A load that another took the memory of meanwhile is tried again when there is room.
func TestSlowServerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		far := m.elsewhere("far", 60, 0)
		load, tries := far.Load, 0
		far.Load = func(ctx context.Context, progress func(float64)) (Instance[string], error) {
			tries++
			if err := during(ctx, time.Hour); err != nil { // it takes its memory late
				return nil, err
			}
			return load(ctx, progress)
		}
		s := newSet(t, Config{Memory: m}, far, m.spec("a", 60, time.Second))
		if err := s.Load("far"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		lease(t, s, "a").Release()
		if err := s.Await("far"); err != nil || tries != 2 {
			t.Errorf("%v, %d tries", err, tries)
		}
		want(t, s, "at last", "far loaded, a sleeping")
	})
}

// endsOfFar are how the load of far is ended.
var endsOfFar = map[string]func(*testing.T, *Set[string]){
	"unloaded": func(t *testing.T, s *Set[string]) {
		if err := s.Unload("far"); err != nil {
			t.Error(err)
		}
	},
	"removed": func(_ *testing.T, s *Set[string]) { s.Remove("far") },
	"closed":  func(_ *testing.T, s *Set[string]) { s.Close(context.Background(), func(Instance[string]) {}) },
}

// Such a load ends as any other, and holds up no end.
func TestSlowServerEnds(t *testing.T) {
	for how, end := range endsOfFar {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{limit: 100}
			s := newSet(t, Config{Memory: m}, m.elsewhere("far", 10, time.Hour), m.spec("a", 10, time.Minute))
			begun, got := time.Now(), make(chan error)
			go func() { got <- s.Await("far") }()
			time.Sleep(time.Minute)
			if err := s.Load("a"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			end(t, s)
			if err := <-got; err == nil || time.Since(begun) > 2*time.Minute {
				t.Errorf("%s: %v after %v", how, err, time.Since(begun))
			}
			if how != "closed" {
				lease(t, s, "a").Release()
			} else if _, err := s.Acquire(t.Context(), "a", Options{}); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			synctest.Wait()
			if used := m.limit - m.Free(); how == "closed" && used != 0 || how != "closed" && used != 10 {
				t.Errorf("%s: %d bytes are left", how, used)
			}
		})
	}
}

// Such a load has its turn beside those that are always some to be loaded, and again when it is tried again.
func TestSlowServerHasItsTurn(t *testing.T) {
	for _, fails := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{limit: 15}
			far, tries := m.elsewhere("far", 3, 0), 0
			load := far.Load
			far.Load = func(ctx context.Context, progress func(float64)) (Instance[string], error) {
				if tries++; tries <= fails {
					time.Sleep(time.Second) // so that another takes the turn
					return nil, noRoom(1)
				}
				return load(ctx, progress)
			}
			s := newSet(t, Config{Memory: m, Stay: 5 * time.Second}, m.spec("a", 10, time.Second), m.spec("b", 10, time.Second), far)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for _, name := range []string{"a", "b"} {
				for range 2 {
					wg.Go(func() { useOn(ctx, s, name) })
				}
			}
			time.Sleep(10 * time.Second)
			begun := time.Now()
			late := time.AfterFunc(time.Hour, cancel) // then those that alternate end, and it has the turn in any case
			err := s.Await("far")
			if took := time.Since(begun); err != nil || tries != fails+1 || took > time.Duration(fails+1)*30*time.Second {
				t.Errorf("%v after %v and %d of %d tries", err, took, tries, fails+1)
			}
			late.Stop()
			cancel()
			wg.Wait()
			s.Close(t.Context(), func(Instance[string]) {})
			if m.used != 0 || m.most > m.limit {
				t.Errorf("%d bytes are left, %d of %d were taken", m.used, m.most, m.limit)
			}
		})
	}
}

// Nor does it wait for one that is queued and cannot be loaded yet, and those that want the turn back have it in that order.
func TestSlowServerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m}, m.spec("a", 10, 0), m.spec("b", 10, time.Hour),
			m.elsewhere("far", 10, time.Minute), m.elsewhere("farther", 10, 2*time.Minute))
		l := lease(t, s, "a")
		if err := s.Unload("a"); err != nil {
			t.Fatal(err)
		}
		go func() { lease(t, s, "a").Release() }() // when the first lease has ended
		synctest.Wait()
		for _, name := range []string{"far", "farther", "b"} {
			if err := s.Load(name); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour + time.Second)
		want(t, s, "b is there", "a loaded 1, b loaded, far loading, farther loading")
		time.Sleep(10 * time.Minute)
		want(t, s, "a is still leased", "a loaded 1, b loaded, far loaded, farther loaded")
		l.Release()
		time.Sleep(time.Second)
		want(t, s, "a has come back", "a loaded, b loaded, far loaded, farther loaded")
	})
}

// One that waits for the turn ends as well, and leaves it to others.
func TestSlowServerEndsInLine(t *testing.T) {
	for how, end := range endsOfFar {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{limit: 100}
			s := newSet(t, Config{Memory: m}, m.elsewhere("far", 10, time.Minute), m.spec("a", 10, time.Hour), m.spec("b", 10, 0))
			begun, got := time.Now(), make(chan error)
			go func() { got <- s.Await("far") }()
			synctest.Wait()
			if err := s.Load("a"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute) // far knows its need by now
			if n := m.loads.Load(); n != 1 {
				t.Errorf("%s: %d loads have begun", how, n)
			}
			end(t, s)
			if err := <-got; err == nil || time.Since(begun) > 11*time.Minute {
				t.Errorf("%s: %v after %v", how, err, time.Since(begun))
			}
			if how != "closed" {
				lease(t, s, "b").Release()
			}
			synctest.Wait()
			if used := m.limit - m.Free(); how == "closed" && used != 0 || how != "closed" && used != 20 {
				t.Errorf("%s: %d bytes are left", how, used)
			}
		})
	}
}

// What such a load held while another model's need was compared with the room may be had when it has ended, whenever that is.
func TestSlowServerEndsMeanwhile(t *testing.T) {
	for _, asks := range []time.Duration{0, 20 * time.Minute, 50 * time.Minute, 2 * time.Hour} { // how long the need takes
		for _, apart := range []bool{false, true} {
			for _, busy := range []bool{false, true} { // another wants the turn
				synctest.Test(t, func(t *testing.T) {
					m := &machine{limit: 100}
					late := m.spec("late", 60, time.Second)
					need := late.Need
					late.Elsewhere, late.Need = apart, func(room uint64) (uint64, error) {
						time.Sleep(asks)
						return need(room)
					}
					s := newSet(t, Config{Memory: m}, m.elsewhere("far", 60, time.Hour), late, m.spec("b", 10, 3*time.Hour))
					if err := s.Load("far"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
					want(t, s, "at first", "far loading, late unloaded, b unloaded")
					if err := s.Load("late"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(asks + asks/2)
					if busy {
						if err := s.Load("b"); err != nil {
							t.Fatal(err)
						}
					}
					if err := s.Await("late"); err != nil {
						t.Errorf("%v to ask, apart %v, busy %v: %v", asks, apart, busy, err)
					}
					s.Close(t.Context(), func(Instance[string]) {})
					if m.used != 0 || m.most > m.limit {
						t.Errorf("%d bytes are left, %d were taken", m.used, m.most)
					}
				})
			}
		}
	}
}

// Of several such loads those are waited for that hold what is wanted. One that does not fit even alone is refused.
func TestSlowServersHoldMemory(t *testing.T) {
	for _, apart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{limit: 100}
			specs := []Spec[string]{m.spec("fits", 60, time.Second), m.spec("huge", 101, time.Second)}
			for i := range specs {
				specs[i].Elsewhere = apart
			}
			s := newSet(t, Config{Memory: m}, append(specs, m.elsewhere("far", 50, time.Hour), m.elsewhere("farther", 20, 24*time.Hour))...)
			begun := time.Now()
			for _, name := range []string{"far", "farther"} {
				if err := s.Load(name); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(30 * time.Minute)
			lease(t, s, "fits").Release()
			if took := time.Since(begun); took < time.Hour || took > 3*time.Hour { // when far has been there as long as loading it took
				t.Errorf("after %v", took)
			}
			want(t, s, "at last", "fits loaded, huge unloaded, far sleeping, farther loading")
			var e *LoadError
			if _, err := s.Acquire(t.Context(), "huge", Options{}); !errors.As(err, &e) {
				t.Error(err)
			}
			want(t, s, "one was refused", "fits loaded, huge unloaded, far sleeping, farther loaded")
		})
	}
}

// One that asks again what it needs keeps the turn: others that began meanwhile would hold the memory then.
func TestSlowServerAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m}, m.elsewhere("far", 60, time.Hour), m.elsewhere("late", 60, 1000*time.Minute), m.spec("b", 10, 0))
		for _, name := range []string{"far", "late"} {
			if err := s.Load(name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Hour) // late has asked twice, for 10 minutes each, and asks again since far is there
		if err := s.Load("b"); err != nil {
			t.Fatal(err)
		}
		want(t, s, "late asks", "far loaded, late loading, b unloaded")
		for _, name := range []string{"b", "late"} {
			if err := s.Await(name); err != nil {
				t.Error(err)
			}
		}
		want(t, s, "at last", "far sleeping, late loaded, b loaded")
	})
}

// A load that failed for want of memory is tried again where others that took it are gone when it is seen.
func TestSlowServerMissedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		far := m.elsewhere("far", 60, 0)
		load := far.Load
		far.Load = func(ctx context.Context, progress func(float64)) (Instance[string], error) {
			time.Sleep(time.Hour)
			i, err := load(ctx, progress)
			time.Sleep(time.Hour)
			return i, err
		}
		s := newSet(t, Config{Memory: m}, far, m.spec("a", 60, 0))
		if err := s.Load("far"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		lease(t, s, "a").Release()
		time.Sleep(90 * time.Minute)
		if err := s.Unload("a"); err != nil {
			t.Fatal(err)
		}
		if err := s.Await("far"); err != nil {
			t.Error(err)
		}
	})
}

// What a model kept that could not be woken is to be had once it is closed.
func TestSlowServerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		far := m.elsewhere("far", 10, 0)
		load := far.Load
		far.Load = func(ctx context.Context, progress func(float64)) (Instance[string], error) {
			i, err := load(ctx, progress)
			return lost{i}, err
		}
		s := newSet(t, Config{Memory: m, Sleep: time.Minute}, far, m.spec("all", 100, 0))
		lease(t, s, "far").Release()
		time.Sleep(2 * time.Minute)
		want(t, s, "at first", "far sleeping, all unloaded")
		if err := s.Load("far"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		lease(t, s, "all").Release()
		want(t, s, "at last", "far unloaded, all loaded")
	})
}

// lost is an instance whose file is gone, and that takes a minute to close.
type lost struct{ Instance[string] }

func (lost) Wake(context.Context, func(float64)) error { return errors.New("gone") }

func (l lost) Close() {
	time.Sleep(time.Minute)
	l.Instance.Close()
}
