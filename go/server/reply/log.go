package reply

import (
	"context"
	"sync"
	"time"
)

// An event is an event of a stream as it is sent.
type event struct {
	name string
	body []byte
}

// A Log keeps the events of a stream that goes on when no client reads it. Any number of clients may read it, from the
// beginning or from where they stopped.
type Log struct {
	mu      sync.Mutex
	events  []event
	bytes   int
	ended   bool
	changed chan struct{} // closed when an event is added, or at the end
}

// eventBytes is the memory of an event besides its body.
const eventBytes = 64

// NewLog returns an empty log.
func NewLog() *Log { return &Log{changed: make(chan struct{})} }

// Add adds an event with a JSON body.
func (l *Log) Add(name string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event{name, body})
	l.bytes += eventBytes + len(body)
	l.tell()
}

// End marks the log as complete.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.tell()
}

func (l *Log) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Size returns the memory of the log in bytes.
func (l *Log) Size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// from returns the events from the nth on, whether they are the last, and a channel that is closed when there are more.
func (l *Log) from(n int) (events []event, ended bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[min(n, len(l.events)):], l.ended, l.changed
}

// Follow sends the events from the nth on to the last, with a comment after each period without one.
func (l *Log) Follow(ctx context.Context, s *Stream, n int, quiet time.Duration) error {
	var silence <-chan time.Time
	for {
		events, ended, more := l.from(n)
		n += len(events)
		for _, e := range events {
			s.title(e.name)
			s.Raw(string(e.body))
			if s.Full() && s.Flush() != nil {
				return ErrGone
			}
		}
		if s.Flush() != nil {
			return ErrGone
		}
		if ended {
			return nil
		}
		if quiet > 0 {
			silence = time.After(quiet)
		}
		select {
		case <-ctx.Done():
			return ErrGone
		case <-more:
		case <-silence:
			s.Ping()
		}
	}
}
