// Package panics turns panics into errors. What a file, a peer or a client makes panic ends with an error then, and the
// process goes on. A goroutine needs its own Catch: no other goroutine can recover its panics.
package panics

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// A Panic is a panic as an error.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// Error returns one line.
func (p *Panic) Error() string {
	return fmt.Sprintf("internal error: %.200s", strings.ToValidUTF8(strings.ReplaceAll(fmt.Sprint(p.Value), "\n", " "), ""))
}

// Catch calls f, and returns its panic as a *Panic.
func Catch(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// Each calls f for 0 to n-1, each in a goroutine of its own, and returns the first error in this order. A panic is an
// error.
func Each(n int, f func(i int) error) error { return Share(n, n, f) }

// Share calls f for 0 to n-1, in this order, until one fails, and shares the calls among that many goroutines. It returns
// the first error in this order. A panic is an error.
func Share(goroutines, n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var wait sync.WaitGroup
	for range min(goroutines, n) {
		wait.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = Catch(func() error { return f(i) }); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wait.Wait()
	return cmp.Or(errs...)
}
