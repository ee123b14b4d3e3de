package models

import (
	"context"
	"errors"
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

// Such a load ends as any other, and holds up no end.
func TestSlowServerEnds(t *testing.T) {
	for how, end := range map[string]func(*Set[string]){
		"unloaded": func(s *Set[string]) {
			if err := s.Unload("far"); err != nil {
				t.Error(err)
			}
		},
		"removed": func(s *Set[string]) { s.Remove("far") },
		"closed":  func(s *Set[string]) { s.Close(context.Background(), func(Instance[string]) {}) },
	} {
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
			end(s)
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
