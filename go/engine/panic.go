package engine

import (
	"fmt"
	"runtime/debug"
)

// A PanicError is a panic in the code of one request, such as its sampler or its Sink. It ends only that
// request.
type PanicError struct {
	Request uint64 // the ticket's number
	Value   any
	Stack   []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("request %d panicked: %v", e.Request, e.Value)
}

// guard runs code of the request j, and returns a panic as a *PanicError.
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
