package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

const (
	MaxAdapters = 64                 // adapters that an engine may have
	MaxApplied  = kernel.MaxAdapters // adapters that a sequence may use
)

// An Adapter is a LoRA adapter loaded by an engine. Each sequence uses its own adapters and scales, or none;
// a token's logits do not depend on the adapters of other sequences.
type Adapter struct {
	Name string // by which requests know it; set before the first uses it

	m      *model.Adapter
	number int32

	// Of a Loop, under its lock.
	requests int           // that use it
	leaving  chan struct{} // closed once it is free of requests; nil while it may be used
}

// Number returns the adapter's number, unique while it is loaded.
func (a *Adapter) Number() int { return int(a.number) }

// Bytes returns the memory that it takes.
func (a *Adapter) Bytes() int { return a.m.Bytes() }

// Tensors returns how many tensors it changes.
func (a *Adapter) Tensors() int { return a.m.Tensors }

// Rank returns the largest rank of its matrices.
func (a *Adapter) Rank() int { return a.m.Rank }

// A ScaledAdapter is an adapter with the scale of a sequence.
type ScaledAdapter struct {
	*Adapter
	Scale float32
}

// Errors about adapters.
var (
	ErrAdapters    = errors.New("too many adapters")
	ErrAdapterGone = errors.New("the adapter is being unloaded")
)

// OpenAdapter loads the adapter at path. Errors name the file. It must not be called while a Loop uses the
// engine: see Loop.OpenAdapter.
func (e *Engine) OpenAdapter(path string) (*Adapter, error) {
	m, err := e.readAdapter(path)
	if err != nil {
		return nil, err
	}
	a, err := e.attach(m)
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// readAdapter reads an adapter. It may run concurrently with passes.
func (e *Engine) readAdapter(path string) (*model.Adapter, error) {
	leave := e.device.enter()
	defer leave()
	return e.model.OpenAdapter(path, model.Options{Pack: e.device.pack, Turn: e.device.compute, Budget: e.device.budget})
}

// attach gives an adapter a number and makes it available to passes.
func (e *Engine) attach(m *model.Adapter) (*Adapter, error) {
	list := slices.Clone(e.adapters)
	number := slices.Index(list, nil)
	if number < 0 {
		if number = len(list); number == MaxAdapters {
			return nil, fmt.Errorf("%w: %d are loaded, want at most %d", ErrAdapters, number, MaxAdapters)
		}
		list = append(list, nil)
	}
	list[number] = m
	if err := e.setAdapters(list); err != nil {
		return nil, err
	}
	return &Adapter{m: m, number: int32(number)}, nil
}

// detach removes an adapter that nothing uses, and releases its memory.
func (e *Engine) detach(a *Adapter) error {
	list := slices.Clone(e.adapters)
	list[a.number] = nil
	if err := e.setAdapters(list); err != nil {
		return err
	}
	a.m.Close()
	return nil
}

// setAdapters sets the adapters of passes. It runs in the device's turn, because the number of threads, which
// determines the size of their scratch memory, may change between two turns.
func (e *Engine) setAdapters(list []*model.Adapter) error {
	e.talk.Lock()
	err := e.device.inTurn(func() error { return e.runner.SetAdapters(list) })
	e.talk.Unlock()
	if err == nil {
		e.adapters = list
	}
	return err
}

// SetAdapters sets the adapters of the sequence. If they change, its state, computed with the previous ones,
// is dropped.
func (s *Sequence) SetAdapters(list []ScaledAdapter) error {
	list, err := settled(list)
	if err != nil {
		return err
	}
	if space := adapterSpace(list); space != s.space {
		s.Close()
		s.space = space
	}
	s.adapt(list)
	return nil
}

// adapt sets the adapters of a sequence that is empty or already has them.
func (s *Sequence) adapt(list []ScaledAdapter) {
	s.numbers, s.scales = nil, nil
	for _, a := range list {
		s.numbers, s.scales = append(s.numbers, a.number), append(s.scales, a.Scale)
	}
}

// settled returns adapters in the order of their numbers, without those of scale 0: lists with the same
// effect become equal.
func settled(list []ScaledAdapter) ([]ScaledAdapter, error) {
	var kept []ScaledAdapter
	for _, a := range list {
		if s := float64(a.Scale); math.IsNaN(s) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("an adapter's scale of %v, want a finite number", a.Scale)
		}
		if a.Scale != 0 {
			kept = append(kept, a)
		}
	}
	slices.SortFunc(kept, func(a, b ScaledAdapter) int { return int(a.number - b.number) })
	for i := 1; i < len(kept); i++ {
		if kept[i].number == kept[i-1].number {
			return nil, errors.New("the same adapter twice")
		}
	}
	if len(kept) > MaxApplied {
		return nil, fmt.Errorf("%w: %d at once, want at most %d", ErrAdapters, len(kept), MaxApplied)
	}
	return kept, nil
}

// adapterSpace names the adapter files and scales, which determine the state of a text besides the model. It
// is empty without adapters.
func adapterSpace(list []ScaledAdapter) string {
	var s strings.Builder
	for _, a := range list {
		fmt.Fprintf(&s, "\x00adapter %x %08x", a.m.Hash, math.Float32bits(a.Scale))
	}
	return s.String()
}

// OpenAdapter loads the adapter at path while requests run.
func (l *Loop) OpenAdapter(path string) (*Adapter, error) {
	m, err := l.e.readAdapter(path)
	if err != nil {
		return nil, err
	}
	var a *Adapter
	err = l.Between(func() (err error) {
		a, err = l.e.attach(m)
		return err
	})
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// DropAdapter unloads an adapter. New requests cannot use it. It waits, until ctx ends, for the requests that
// do; then the memory is released.
func (l *Loop) DropAdapter(ctx context.Context, a *Adapter) error {
	l.mu.Lock()
	if a.leaving != nil {
		l.mu.Unlock()
		return ErrAdapterGone
	}
	a.leaving = make(chan struct{})
	if a.requests == 0 {
		l.detachLater(a)
	}
	l.mu.Unlock()
	select {
	case <-a.leaving:
		return nil
	case <-l.closed:
		return ErrClosing
	case <-ctx.Done():
		return ctx.Err()
	}
}

// detachLater removes an adapter before the next pass. The caller holds the lock.
func (l *Loop) detachLater(a *Adapter) {
	l.calls = append(l.calls, func() {
		_ = l.e.detach(a) // with fewer adapters nothing is refused but memory; then it stays, unused
		close(a.leaving)
	})
	l.nudge()
}

// Between runs f on the loop's goroutine between two passes, where it may use the engine, and returns its
// error.
func (l *Loop) Between(f func() error) error {
	done := make(chan error, 1)
	l.mu.Lock()
	if l.stopping {
		l.mu.Unlock()
		return ErrClosing
	}
	l.calls = append(l.calls, func() { done <- f() })
	l.nudge()
	l.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-l.closed:
		select {
		case err := <-done:
			return err
		default:
			return ErrClosing
		}
	}
}

// runCalls runs the functions queued by Between. The caller holds the lock, which is released meanwhile.
func (l *Loop) runCalls() {
	for len(l.calls) > 0 {
		calls := l.calls
		l.calls = nil
		l.mu.Unlock()
		for _, f := range calls {
			f()
		}
		l.mu.Lock()
	}
}

// use counts a request as a user of its adapters. The caller holds the lock.
func (l *Loop) use(list []ScaledAdapter) error {
	for _, a := range list {
		if a.leaving != nil {
			return ErrAdapterGone
		}
	}
	for _, a := range list {
		a.requests++
	}
	return nil
}

// unuse reverts a use.
func (l *Loop) unuse(list []ScaledAdapter) {
	for _, a := range list {
		if a.requests--; a.requests == 0 && a.leaving != nil {
			l.detachLater(a.Adapter)
		}
	}
}
