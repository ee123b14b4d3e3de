package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Names mean models; the only model is meant by any name, the default by none.
func TestNames(t *testing.T) {
	m := &machine{limit: 100}
	s := New[string](Config{})
	var missing *NotFoundError
	if _, err := s.Acquire(t.Context(), "", Options{}); !errors.As(err, &missing) {
		t.Errorf("of an empty set: %v", err)
	}
	a := m.spec("a", 1, 0)
	a.Names, a.Starting = []string{"a", "alias"}, true
	if err := s.Add(a); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "x", Options{}); err != ErrLoading || s.Ready() {
		t.Errorf("while it starts: %v", err)
	}
	if err := s.Await("a"); err != nil || !s.Ready() || s.Several() {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "a", "alias", "gpt-4"} {
		lease(t, s, name).Release()
	}
	for _, names := range [][]string{{"c", "alias"}, {""}, {}, {"d", "d"}} {
		if err := s.Add(Spec[string]{Names: names}); err == nil {
			t.Errorf("%q were taken", names)
		}
	}
	if err := s.Add(m.spec("b", 1, 0)); err != nil {
		t.Fatal(err)
	}
	if got := *lease(t, s, "").Model + *lease(t, s, "b").Model; got != "ab" {
		t.Error(got)
	}
	if _, err := s.Acquire(t.Context(), "gpt-4", Options{}); !errors.As(err, &missing) || missing.Name != "gpt-4" || !slices.Equal(missing.Names, []string{"a", "b"}) {
		t.Errorf("an unknown name: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Acquire(gone, "a", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("for one who has gone: %v", err)
	}
}

// Models are loaded when they are wanted, by as many requests as want them at once; events tell of it in order.
func TestOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m}, m.spec("a", 10, time.Second), m.spec("b", 10, time.Second))
		events, stop := s.Watch()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				l := lease(t, s, "b")
				time.Sleep(time.Second)
				l.Release()
				l.Release()
			})
		}
		want(t, s, "at first", "a unloaded, b loading")
		time.Sleep(1500 * time.Millisecond)
		want(t, s, "then", "a unloaded, b loaded 5")
		wg.Wait()
		if err := s.Unload("b"); err != nil {
			t.Error(err)
		}
		want(t, s, "at last", "a unloaded, b unloaded")
		if m.loads.Load() != 1 || m.used != 0 {
			t.Errorf("%d loads, %d bytes are left", m.loads.Load(), m.used)
		}
		stop()
		var got []string
		for e := range events {
			got = append(got, fmt.Sprint(e.Model, " ", e.State, " ", e.Part, " ", e.First))
		}
		if fmt.Sprint(got) != "[b loading 0 true b loading 0.5 false b loaded 1 true b unloaded 0 false]" {
			t.Errorf("events %q", got)
		}
		no := &NotLoadedError{}
		if err := s.Unload("a"); !errors.As(err, &no) {
			t.Errorf("unloading what is not loaded: %v", err)
		}
	})
}

// Without autoload requests load nothing, unless they say so; sleeping models wake in any case.
func TestManual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m, Manual: true, Sleep: time.Minute}, m.spec("a", 10, 0), m.spec("b", 10, 0))
		var no *NotLoadedError
		if _, err := s.Acquire(t.Context(), "a", Options{}); !errors.As(err, &no) {
			t.Errorf("%v", err)
		}
		yes := true
		l, err := s.Acquire(t.Context(), "a", Options{Load: &yes})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Load("b"); err != nil {
			t.Fatal(err)
		}
		want(t, s, "asked for", "a loaded 1, b loaded")
		time.Sleep(2 * time.Minute)
		want(t, s, "unused", "a loaded 1, b sleeping")
		l.Release()
		lease(t, s, "b").Release()
		time.Sleep(30 * time.Second)
		want(t, s, "woken", "a loaded, b loaded")
	})
}

// A load that only was asked for ends when it is asked for no more, when the model is removed, and at the end; one that a
// request waits for goes on. A model whose waking is ended sleeps on.
func TestLoadEnds(t *testing.T) {
	ends := map[string]func(*Set[string]){
		"unloaded": func(s *Set[string]) {
			if err := s.Unload("a"); err != nil {
				t.Error(err)
			}
		},
		"removed": func(s *Set[string]) { s.Remove("a") },
		"closed":  func(s *Set[string]) { s.Close(context.Background(), func(Instance[string]) {}) },
	}
	for how, end := range ends {
		for _, asleep := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{limit: 100}
				s := newSet(t, Config{Memory: m, Sleep: time.Minute}, m.spec("a", 10, time.Hour))
				if asleep {
					lease(t, s, "a").Release()
					time.Sleep(2 * time.Minute)
				}
				before, left := time.Now(), m.limit-m.Free()
				got := make(chan error)
				go func() { got <- s.Await("a") }()
				synctest.Wait()
				if st := s.List()[0].State; st != Loading {
					t.Errorf("%s: it is %s", how, st)
				}
				end(s)
				if err := <-got; err == nil || time.Since(before) > time.Minute {
					t.Errorf("%s: %v after %v", how, err, time.Since(before))
				}
				synctest.Wait()
				if how != "unloaded" {
					left = 0
				}
				if used := m.limit - m.Free(); used != left {
					t.Errorf("%s: %d bytes are left, want %d", how, used, left)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m}, m.spec("a", 10, time.Hour))
		go func() { lease(t, s, "a").Release() }()
		synctest.Wait()
		if err := s.Unload("a"); !errors.Is(err, ErrLoading) {
			t.Errorf("unloading what a request waits for: %v", err)
		}
		time.Sleep(2 * time.Hour)
		want(t, s, "it was waited for", "a loaded")
	})
}

// A panic in a model's own functions is that model's error: others go on, and later it can be tried again.
func TestPanics(t *testing.T) {
	m := &machine{limit: 100}
	var told []string
	s := newSet(t, Config{Memory: m, OnPanic: func(p *PanicError) {
		told = append(told, fmt.Sprint(p.Name, " ", p.Value, " ", strings.Contains(string(p.Stack), "TestPanics")))
	}}, m.spec("a", 10, 0))
	bad, broken := m.spec("bad", 10, 0), true
	load, need := bad.Load, bad.Need
	bad.Load = func(ctx context.Context, progress func(float64)) (Instance[string], error) {
		if broken {
			panic("index out of\nrange")
		}
		return load(ctx, progress)
	}
	worse := m.spec("worse", 10, 0)
	worse.Need = func(room uint64) (uint64, error) {
		if broken {
			panic(fmt.Errorf("nil"))
		}
		return need(room)
	}
	for _, spec := range []Spec[string]{bad, worse} {
		if err := s.Add(spec); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"bad": "internal error: index out of range", "worse": "internal error: nil"} {
		var failed *LoadError
		if _, err := s.Acquire(t.Context(), name, Options{}); !errors.As(err, &failed) || failed.Err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
		if st, err := s.Status(name); err != nil || st.State != Unloaded || st.Err == nil || st.Err.Error() != want {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	slices.Sort(told)
	if want := []string{"bad index out of\nrange true", "worse nil true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	lease(t, s, "a").Release()
	broken = false
	for _, name := range []string{"bad", "worse"} {
		lease(t, s, name).Release()
	}
}
