package engine

import (
	"fmt"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A PanicError is a panic in the code of one request, such as its sampler or its Sink. It ends only that
// request.
type PanicError struct {
	Request uint64 // the ticket's number
	*panics.Panic
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("request %d panicked: %v", e.Request, e.Value)
}

// guard runs code of the request j, and returns a panic as a *PanicError.
func (l *Loop) guard(j *job, f func()) error {
	err := panics.Catch(func() error {
		f()
		return nil
	})
	p, ok := err.(*panics.Panic)
	if !ok {
		return nil
	}
	e := &PanicError{j.id, p}
	if l.cfg.OnPanic != nil {
		l.cfg.OnPanic(e)
	}
	return e
}
