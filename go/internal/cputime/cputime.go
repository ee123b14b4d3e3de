// Package cputime measures what work costs, for tests that hold it to a bound: other programs make it end later, and
// cost no more.
package cputime

import (
	"runtime"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// Of runs f, and returns the CPU time of its goroutine: not that of others that it starts, nor of the collector beside it.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := platform.ThreadTime()
	f()
	return platform.ThreadTime() - before
}
