// Package panics turns panics into errors. What a file, a peer or a client makes panic ends with an error then, and the
// process goes on. A goroutine needs its own Catch: no other goroutine can recover its panics.
package panics

import (
	"fmt"
	"runtime/debug"
	"strings"
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
