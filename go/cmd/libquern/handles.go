package main

import (
	"context"
	"sync"
	"time"

	"github.com/quern-llm/quern"
)

// handles are the models and the calls that are open, by number. None is given twice, so what was closed can be told from
// what never was.
type handles struct {
	mu    sync.Mutex
	last  int64
	named map[int64]any // *model or *call
}

// add gives a handle.
func (h *handles) add(what any) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.named == nil {
		h.named = map[int64]any{}
	}
	h.last++
	h.named[h.last] = what
	return h.last
}

// find returns what has a handle, or takes it away.
func (h *handles) find(handle int64, take bool) (any, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what, ok := h.named[handle]
	switch {
	case ok && take:
		delete(h.named, handle)
	case !ok && handle > 0 && handle <= h.last:
		return nil, errClosed
	case !ok:
		return nil, invalid("%d is no handle", handle)
	}
	return what, nil
}

func (h *handles) model(handle int64) (*model, error) {
	what, err := h.find(handle, false)
	if err != nil {
		return nil, err
	}
	m, ok := what.(*model)
	if !ok {
		return nil, invalid("the handle %d is that of a call, want that of a model", handle)
	}
	return m, nil
}

// call returns the call of a handle; of a model, its opening.
func (h *handles) call(handle int64) (*call, error) {
	what, err := h.find(handle, false)
	if err != nil {
		return nil, err
	}
	if m, ok := what.(*model); ok {
		return m.opening, nil
	}
	return what.(*call), nil
}

// open begins to open a model.
func (h *handles) open(name string, options []quern.Option) int64 {
	m := &model{calls: map[*call]int64{}}
	m.opening = begin(context.Background(), 1, func(ctx context.Context, c *call) (err error) {
		told := quern.WithProgress(func(p quern.Progress) { c.replace(progressJSON(p)) })
		m.opened, err = quern.Open(ctx, name, append(options, told)...)
		return err
	})
	return h.add(m)
}

// chat begins a call.
func (h *handles) chat(m *model, r quern.Request) (int64, error) {
	c, err := m.begin(func(ctx context.Context, c *call, open *quern.Model) error {
		for e, err := range open.Chat(ctx, r) {
			if err != nil {
				return err
			}
			select {
			case c.events <- eventJSON(e):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	handle := h.add(c)
	if !m.name(c, handle) { // the model was closed meanwhile
		h.find(handle, true)
		return 0, errClosed
	}
	return handle, nil
}

func (h *handles) cancel(handle int64) error {
	what, err := h.find(handle, false)
	if err != nil {
		return err
	}
	if c, ok := what.(*call); ok {
		c.end(errCancelled)
		return nil
	}
	m := what.(*model)
	m.opening.end(errCancelled)
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.calls {
		c.end(errCancelled)
	}
	return nil
}

func (h *handles) close(handle int64) error {
	what, err := h.find(handle, true)
	if err != nil {
		return err
	}
	if c, ok := what.(*call); ok {
		c.close()
		c.of.forget(c)
		return nil
	}
	m := what.(*model)
	m.mu.Lock()
	m.closed = true
	calls := m.calls
	m.calls = nil
	m.mu.Unlock()
	m.opening.end(errClosed)
	for c, handle := range calls {
		if handle != 0 {
			h.find(handle, true)
		}
		c.close()
	}
	m.opening.close()
	if m.opened != nil {
		return m.opened.Close()
	}
	return nil
}

// A model is one that is open, or is being opened.
type model struct {
	opening *call
	opened  *quern.Model // once opening is done without an error

	mu     sync.Mutex
	closed bool
	calls  map[*call]int64 // that have not been closed, with their handles; 0: none
}

// begin begins a call, which waits until the model is open.
func (m *model) begin(work func(context.Context, *call, *quern.Model) error) (*call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	c := begin(context.Background(), 0, func(ctx context.Context, c *call) error {
		select {
		case <-m.opening.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if m.opening.err != nil {
			return m.opening.err
		}
		return work(ctx, c, m.opened)
	})
	c.of = m
	m.calls[c] = 0
	return c, nil
}

// do does work that the caller waits for.
func (m *model) do(work func(context.Context, *quern.Model) error) error {
	c, err := m.begin(func(ctx context.Context, _ *call, open *quern.Model) error { return work(ctx, open) })
	if err != nil {
		return err
	}
	<-c.done
	m.forget(c)
	return c.err
}

// name gives a call its handle, unless the model is closed.
func (m *model) name(c *call, handle int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.calls[c] = handle
	}
	return !m.closed
}

func (m *model) forget(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, c)
}

// A call is work on a goroutine of its own, with its events and its end.
type call struct {
	of     *model // nil: it is the opening of one
	end    context.CancelCauseFunc
	events chan []byte
	done   chan struct{}
	err    error // once done

	reading sync.Mutex // by next
}

// begin begins a call with room for so many events that nobody has asked for.
func begin(ctx context.Context, room int, work func(context.Context, *call) error) *call {
	c := &call{events: make(chan []byte, room), done: make(chan struct{})}
	ctx, c.end = context.WithCancelCause(ctx)
	go func() {
		defer close(c.done)
		defer c.end(nil)
		c.err = guarded(func() error { return work(ctx, c) })
		if c.err != nil && ctx.Err() != nil {
			c.err = context.Cause(ctx)
		}
	}()
	return c
}

// replace leaves an event in place of the one that is there. One goroutine at a time may.
func (c *call) replace(event []byte) {
	select {
	case <-c.events:
	default:
	}
	c.events <- event // no one else fills it
}

// next waits for an event for so many milliseconds; below 0: for as long as it takes. Neither event nor error is the end.
func (c *call) next(timeout int) ([]byte, error) {
	if !c.reading.TryLock() {
		return nil, errReading
	}
	defer c.reading.Unlock()
	var late <-chan time.Time
	if timeout >= 0 {
		timer := time.NewTimer(time.Duration(timeout) * time.Millisecond)
		defer timer.Stop()
		late = timer.C
	}
	select { // what is there comes before the end and the time
	case event := <-c.events:
		return event, nil
	default:
	}
	select {
	case event := <-c.events:
		return event, nil
	case <-c.done:
	case <-late:
		return nil, errTimeout
	}
	select {
	case event := <-c.events:
		return event, nil
	default:
		return nil, c.err
	}
}

// close ends the call and waits until it has.
func (c *call) close() {
	c.end(errClosed)
	<-c.done
}
