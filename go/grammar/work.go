package grammar

import (
	"context"
	"errors"
	"time"
)

// Work bounds what it takes to read and compile a grammar, and ends it when nobody waits for the result. Loops count
// their steps, each of which takes 10 to 100 ns and some 10 bytes at most. A nil Work has no bound. It is not safe for
// concurrent use.
type Work struct {
	ctx  context.Context // nil: of the whole
	left int
	next int   // ctx is asked when left is below that; 0: never
	over error // where none is left
	of   *Work // the whole of which this is a part
}

// ErrLarge reports a grammar that takes more work than it may.
var ErrLarge = errors.New("the grammar is too large: it takes too much work to compile")

// NewWork returns the work of so many steps, for as long as the context lasts.
func NewWork(ctx context.Context, steps int) *Work {
	return &Work{ctx: ctx, left: steps, next: steps, over: ErrLarge}
}

// Part returns a part of the work with a bound of its own, beyond which it ends with the error.
func (w *Work) Part(steps int, over error) *Work {
	return &Work{left: steps, over: over, of: w}
}

// An overrun is the panic with which work ends, and then the error.
type overrun struct{ error }

func (o overrun) Unwrap() error { return o.error }

// Do counts n steps. If there are none left, or the context has ended, it panics; Catch makes an error of that.
func (w *Work) Do(n int) {
	for ; w != nil; w = w.of {
		if w.left -= n; w.left < w.next {
			w.ask()
		}
	}
}

// interval is the number of steps between two looks at the context: about a millisecond.
const interval = 1 << 14

func (w *Work) ask() {
	if w.left < 0 {
		panic(overrun{w.over})
	}
	if err := context.Cause(w.ctx); err != nil {
		panic(overrun{err})
	}
	w.next = max(w.left-interval, 0)
}

// Catch, which must be deferred, sets the error with which work has ended.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case overrun:
		*err = r
	default:
		panic(r)
	}
}

// Overran reports whether an error is one with which work has ended.
func Overran(err error) bool {
	_, is := errors.AsType[overrun](err)
	return is
}

// Wait takes a turn, for as long as the work that is left may take: then it ends with the error of too much work, and
// where the context ends with the cause. A nil Work waits without end.
func (w *Work) Wait(turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	var late <-chan time.Time
	if w != nil {
		timer := time.NewTimer(time.Duration(w.left) * stepTime)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-w.Context().Done():
		return overrun{context.Cause(w.Context())}
	case <-late:
		return overrun{w.over}
	}
}

// stepTime is what a step takes at most.
const stepTime = 100 * time.Nanosecond

// Context returns the context of the work.
func (w *Work) Context() context.Context {
	for ; w != nil; w = w.of {
		if w.ctx != nil {
			return w.ctx
		}
	}
	return context.Background()
}
