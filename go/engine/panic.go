package engine

import (
	"fmt"
	"runtime/debug"
)

// A PanicError is a panic in what belongs to one request, its sampler or its
// Sink: it ends that request, and no other.
type PanicError struct {
	Request uint64 // the ticket's number
	Value   any
	Stack   []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("request %d panicked: %v", e.Request, e.Value)
}

// guard runs what belongs to j, and returns a panic as a *PanicError.
func (l *Loop) guard(j *job, f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &PanicError{Request: j.id, Value: v, Stack: debug.Stack()}
			if l.cfg.OnPanic != nil {
				l.cfg.OnPanic(p)
			}
			err = p
		}
	}()
	f()
	return nil
}
