package models

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A machine is memory, and models in it.
type machine struct {
	mu    sync.Mutex
	limit uint64
	used  uint64
	most  uint64
	loads atomic.Int64
	sleep atomic.Int64
	rest  time.Duration // that falling asleep takes

	garbage uint64 // of what is used
}

func (m *machine) take(n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.limit {
		return noRoom(m.used + n - m.limit)
	}
	m.used += n
	m.most = max(m.most, m.used)
	return nil
}

func (m *machine) give(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
}

func (m *machine) Free() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limit - m.used
}

func (m *machine) Spare(uint64) uint64 { return 0 }

func (m *machine) Trim(uint64) uint64 { return 0 }

func (m *machine) Collect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used, m.garbage = m.used-m.garbage, 0
}

type noRoom uint64

func (noRoom) Error() string { return "no room" }

func (n noRoom) Missing() uint64 { return uint64(n) }

// spec is a model of so many bytes, of which one stays while it sleeps.
func (m *machine) spec(name string, bytes uint64, took time.Duration) Spec[string] {
	return Spec[string]{
		Names: []string{name},
		Need: func(room uint64) (uint64, error) {
			if bytes > room {
				return 0, fmt.Errorf("it needs %d, %d are free: %w", bytes, room, noRoom(bytes-room))
			}
			return bytes, nil
		},
		Load: func(ctx context.Context, progress func(float64)) (Instance[string], error) {
			if err := m.take(bytes); err != nil {
				return nil, err
			}
			m.loads.Add(1)
			progress(0.5)
			if err := during(ctx, took); err != nil {
				m.give(bytes)
				return nil, err
			}
			return &fake{m: m, name: name, bytes: bytes, has: bytes, took: took}, nil
		},
	}
}

// during waits for d, or until ctx ends, and returns its error then.
func during(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type fake struct {
	m          *machine
	name       string
	took       time.Duration
	mu         sync.Mutex
	bytes, has uint64
}

func (f *fake) Model() *string { return &f.name }

func (f *fake) Bytes() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.has
}

func (f *fake) Need(uint64) (uint64, error) { return f.bytes - f.Bytes(), nil }

func (f *fake) resize(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has = n
}

func (f *fake) Sleep() error {
	f.m.sleep.Add(1)
	time.Sleep(f.m.rest)
	f.m.give(f.bytes - 1)
	f.resize(1)
	return nil
}

func (f *fake) Wake(ctx context.Context, _ func(float64)) error {
	if err := f.m.take(f.bytes - 1); err != nil {
		return err
	}
	if err := during(ctx, f.took); err != nil {
		f.m.give(f.bytes - 1)
		return err
	}
	f.resize(f.bytes)
	return nil
}

func (f *fake) Drain(context.Context) {}

func (f *fake) Close() { f.m.give(f.Bytes()); f.resize(0) }

func newSet(t *testing.T, c Config, specs ...Spec[string]) *Set[string] {
	t.Helper()
	s := New[string](c)
	for _, spec := range specs {
		if err := s.Add(spec); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// state is the state of all models, and the leases of each.
func state(s *Set[string]) string {
	var all []string
	for _, st := range s.List() {
		one := st.Names[0] + " " + st.State.String()
		if st.Leases > 0 {
			one += fmt.Sprint(" ", st.Leases)
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

func want(t *testing.T, s *Set[string], what, want string) {
	t.Helper()
	synctest.Wait()
	if got := state(s); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func lease(t *testing.T, s *Set[string], name string) *Lease[string] {
	t.Helper()
	l, err := s.Acquire(t.Context(), name, Options{})
	if err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	return l
}
