package main

import (
	"context"
	"sync"
	"time"

	"github.com/quern-llm/quern"
)

// handles are what is open, by number. None is given twice, so what was closed can be told from what never was.
type handles struct {
	mu    sync.Mutex
	last  int64
	named map[int64]any // *device, *model, *session or *call
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

// kindOf says what has a handle.
func kindOf(what any) string {
	switch what.(type) {
	case *device:
		return "a device"
	case *model:
		return "a model"
	case *session:
		return "a session"
	}
	return "a call"
}

func (h *handles) model(handle int64) (*model, error) {
	what, err := h.find(handle, false)
	if err != nil {
		return nil, err
	}
	m, ok := what.(*model)
	if !ok {
		return nil, invalid("the handle %d is that of %s, want that of a model", handle, kindOf(what))
	}
	return m, nil
}

// talker returns what answers requests: a model, with the session of it that has the handle, if that is one.
func (h *handles) talker(handle int64) (*model, *session, error) {
	what, err := h.find(handle, false)
	if err != nil {
		return nil, nil, err
	}
	switch what := what.(type) {
	case *model:
		return what, nil, nil
	case *session:
		return what.of, what, nil
	}
	return nil, nil, invalid("the handle %d is that of %s, want that of a model or a session", handle, kindOf(what))
}

func (h *handles) session(handle int64) (*session, error) {
	what, err := h.find(handle, false)
	if err != nil {
		return nil, err
	}
	s, ok := what.(*session)
	if !ok {
		return nil, invalid("the handle %d is that of %s, want that of a session", handle, kindOf(what))
	}
	return s, nil
}

// call returns the call of a handle; of a model, its opening.
func (h *handles) call(handle int64) (*call, error) {
	what, err := h.find(handle, false)
	if err != nil {
		return nil, err
	}
	switch what := what.(type) {
	case *model:
		return what.opening, nil
	case *call:
		return what, nil
	}
	return nil, invalid("the handle %d is that of %s, want that of a call or a model", handle, kindOf(what))
}

// open begins to open a model, on the device of a handle, if that is not 0.
func (h *handles) open(name string, options []quern.Option, on int64) (int64, error) {
	m := &model{calls: map[*call]int64{}, sessions: map[*session]int64{}}
	if on != 0 {
		what, err := h.find(on, false)
		if err != nil {
			return 0, err
		}
		d, ok := what.(*device)
		if !ok {
			return 0, invalid("device: the handle %d is that of %s, want that of a device", on, kindOf(what))
		}
		m.on = d
		options = append(options, quern.WithDevice(d.Device))
	}
	m.opening = begin(context.Background(), 1, func(ctx context.Context, c *call) (err error) {
		told := quern.WithProgress(func(p quern.Progress) { c.replace(progressJSON(p)) })
		m.opened, err = quern.Open(ctx, name, append(options, told)...)
		return err
	})
	return h.add(m), nil
}

// chat begins a call of a model, or of a session of it.
func (h *handles) chat(m *model, s *session, t talk) (int64, error) {
	c, err := m.begin(s, func(ctx context.Context, c *call, open *quern.Model) error {
		for event, err := range t(ctx, open) {
			if err != nil {
				return err
			}
			select {
			case c.events <- event:
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

// info returns what is to be known of a device, a model or a session.
func (h *handles) info(handle int64) ([]byte, error) {
	what, err := h.find(handle, false)
	if err != nil {
		return nil, err
	}
	switch what := what.(type) {
	case *device:
		return deviceJSON(what.Status()), nil
	case *session:
		return sessionJSON(what.Session), nil
	case *model:
		var info quern.Info
		err := what.do(func(_ context.Context, open *quern.Model) error {
			info = open.Info()
			return nil
		})
		return infoJSON(info), err
	}
	return nil, invalid("the handle %d is that of a call, want that of a model, a session or a device", handle)
}

func (h *handles) cancel(handle int64) error {
	what, err := h.find(handle, false)
	if err != nil {
		return err
	}
	switch what := what.(type) {
	case *call:
		what.end(errCancelled)
	case *model:
		what.opening.end(errCancelled)
		what.end(nil, errCancelled)
	case *session:
		what.of.end(what, errCancelled)
	case *device:
		for _, m := range h.on(what) {
			h.cancel(m)
		}
	}
	return nil
}

func (h *handles) close(handle int64) error {
	what, err := h.find(handle, true)
	if err != nil {
		return err
	}
	switch what := what.(type) {
	case *call:
		what.close()
		what.of.forget(what)
	case *session:
		for c, handle := range what.of.end(what, errClosed) {
			h.drop(handle)
			c.close()
			what.of.forget(c)
		}
		what.of.leave(what)
		return what.Close()
	case *model:
		return h.closeModel(what)
	case *device:
		for _, m := range h.on(what) {
			h.close(m)
		}
		return what.Close()
	}
	return nil
}

func (h *handles) closeModel(m *model) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.opening.end(errClosed)
	calls := m.end(nil, errClosed) // all, before one is waited for: they may wait for each other
	m.mu.Lock()
	sessions := m.sessions
	m.calls, m.sessions = nil, nil
	m.mu.Unlock()
	for c, handle := range calls {
		h.drop(handle)
		c.close()
	}
	for s, handle := range sessions {
		h.drop(handle)
		s.Close()
	}
	m.opening.close()
	if m.opened != nil {
		return m.opened.Close()
	}
	return nil
}

// on returns the handles of the models of a device.
func (h *handles) on(d *device) (all []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for handle, what := range h.named {
		if m, ok := what.(*model); ok && m.on == d {
			all = append(all, handle)
		}
	}
	return all
}

// drop takes a handle away, unless it is 0 or gone already.
func (h *handles) drop(handle int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.named, handle)
}

// A model is one that is open, or is being opened.
type model struct {
	opening *call
	opened  *quern.Model // once opening is done without an error
	on      *device      // nil: one of its own

	mu       sync.Mutex
	closed   bool
	calls    map[*call]int64 // that have not been closed, with their handles; 0: none
	sessions map[*session]int64
}

// begin begins a call, which waits until the model is open; of a session, unless that is nil.
func (m *model) begin(s *session, work func(context.Context, *call, *quern.Model) error) (*call, error) {
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
	c.of, c.in = m, s
	m.calls[c] = 0
	return c, nil
}

// do does work that the caller waits for.
func (m *model) do(work func(context.Context, *quern.Model) error) error { return m.doIn(nil, work) }

// doIn is do in a session, unless that is nil.
func (m *model) doIn(s *session, work func(context.Context, *quern.Model) error) error {
	c, err := m.begin(s, func(ctx context.Context, _ *call, open *quern.Model) error { return work(ctx, open) })
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

// keep keeps a session with its handle, unless the model is closed.
func (m *model) keep(s *session, handle int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.sessions[s] = handle
	}
	return !m.closed
}

func (m *model) leave(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, s)
}

// end ends calls, of a session or all, and returns them with their handles.
func (m *model) end(s *session, why error) map[*call]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := map[*call]int64{}
	for c, handle := range m.calls {
		if s == nil || c.in == s {
			c.end(why)
			ended[c] = handle
		}
	}
	return ended
}

func (m *model) forget(c *call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, c)
}

// A call is work on a goroutine of its own, with its events and its end.
type call struct {
	of     *model   // nil: it is the opening of one
	in     *session // of the model; nil: none
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
