package server

import (
	"context"
	"sync"
	"time"
)

// A loggedEvent is an event of a stream as it is sent.
type loggedEvent struct {
	name string
	body []byte
}

// An eventLog keeps the events of a stream that goes on when nobody reads it. Any number of clients read it, from the
// beginning or from where they were.
type eventLog struct {
	mu      sync.Mutex
	events  []loggedEvent
	bytes   int
	ended   bool
	changed chan struct{} // closed when there is more, or it has ended
}

// loggedEventBytes is the memory of an event besides its body.
const loggedEventBytes = 64

func newEventLog() *eventLog { return &eventLog{changed: make(chan struct{})} }

func (l *eventLog) add(e loggedEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	l.bytes += loggedEventBytes + len(e.body)
	l.tell()
}

func (l *eventLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.tell()
}

func (l *eventLog) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *eventLog) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// from returns the events from the nth on, whether they are the last, and what says that there are more.
func (l *eventLog) from(n int) (events []loggedEvent, ended bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[min(n, len(l.events)):], l.ended, l.changed
}

// follow sends the events from the nth on until they have ended, with a comment after each quiet period.
func (l *eventLog) follow(ctx context.Context, s *stream, n int, quiet time.Duration) error {
	var silence <-chan time.Time
	for {
		events, ended, more := l.from(n)
		n += len(events)
		for _, e := range events {
			s.logged(e)
			if s.buf.Len() > maxUnsent && s.flush() != nil {
				return errGone
			}
		}
		if s.flush() != nil {
			return errGone
		}
		if ended {
			return nil
		}
		if quiet > 0 {
			silence = time.After(quiet)
		}
		select {
		case <-ctx.Done():
			return errGone
		case <-more:
		case <-silence:
			if err := s.ping(); err != nil {
				return err
			}
		}
	}
}
