package reply

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"
)

// A Log keeps what a stream sends that goes on when no client reads it. Any number of clients may read it, from the
// beginning or from where they stopped.
type Log struct {
	mu      sync.Mutex
	most    int      // bytes that are kept, of the last parts; 0: all are
	parts   [][]byte // as they are sent
	lost    int      // parts that there is no room for any more, which were the first
	sent    int      // bytes of all parts
	bytes   int      // of those that are kept
	ended   bool
	refused error         // why there is nothing; nil: there may be something
	changed chan struct{} // closed when a part is added, or at the end
}

// partBytes is the memory of a part besides its text.
const partBytes = 64

// NewLog returns an empty log, which keeps all.
func NewLog() *Log { return &Log{changed: make(chan struct{})} }

// NewBoundedLog returns an empty log, which keeps the last of what is sent, in so many bytes of memory.
func NewBoundedLog(most int) *Log {
	l := NewLog()
	l.most = most
	return l
}

// Add adds an event with a JSON body.
func (l *Log) Add(name string, body []byte) {
	var b bytes.Buffer
	writeName(&b, name)
	writeData(&b, string(body))
	l.add(bytes.Clone(b.Bytes())) // without the buffer's spare room
}

// Write adds a copy of what is sent, of one event or several. There are no errors.
func (l *Log) Write(p []byte) (int, error) {
	l.add(bytes.Clone(p))
	return len(p), nil
}

func (l *Log) add(part []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = append(l.parts, part)
	l.sent += len(part)
	l.bytes += partBytes + len(part)
	for ; l.most > 0 && l.bytes > l.most; l.lost++ {
		l.bytes -= partBytes + len(l.parts[0])
		l.parts[0] = nil // the array stays for a while
		l.parts = l.parts[1:]
	}
	l.tell()
}

// End marks the log as complete.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.tell()
}

// Refuse marks a log to which nothing was added as complete: who follows it gets err.
func (l *Log) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.refused = true, err
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

// Sent returns how many bytes have been sent so far.
func (l *Log) Sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// A Place is in a log: a part, and how many of its bytes are before it.
type Place struct{ Part, Bytes int }

// At returns the place behind the first so many bytes of what is sent. ok: it is sent, and what follows it is kept.
func (l *Log) At(bytes int) (at Place, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := l.sent
	for i, part := range slices.Backward(l.parts) {
		if begin -= len(part); begin <= bytes {
			return Place{l.lost + i, bytes - begin}, bytes <= l.sent
		}
	}
	return Place{Part: l.lost}, bytes == l.sent
}

// from returns the parts from the nth on, whether they are the last, and a channel that is closed when there are more.
// Without ok, the nth is not kept any more.
func (l *Log) from(n int) (parts [][]byte, ended bool, more <-chan struct{}, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < l.lost {
		return nil, false, nil, false
	}
	return slices.Clone(l.parts[min(n-l.lost, len(l.parts)):]), l.ended, l.changed, true
}

// Follow sends what follows a place up to the end, with a comment after each period without anything; 0: none. The error is that
// of Refuse, or ErrGone where the client is gone, or so slow that there is no room any more for what it has not read.
func (l *Log) Follow(ctx context.Context, s *Stream, from Place, quiet time.Duration) error {
	n, skip := from.Part, from.Bytes
	var silence <-chan time.Time
	for {
		parts, ended, more, ok := l.from(n)
		if !ok {
			return ErrGone
		}
		n += len(parts)
		for _, part := range parts {
			s.buf.Write(part[skip:])
			skip = 0
			if s.Full() && s.Flush() != nil {
				return ErrGone
			}
		}
		if s.Flush() != nil {
			return ErrGone
		}
		if ended {
			return l.refused // which does not change any more
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
