// Package cputime measures what work costs, for tests that hold it to a bound: other programs make it end later, and
// cost no more.
package cputime

import (
	"runtime"
	"syscall"
	"time"
)

// Of runs f, and returns the CPU time of its goroutine: not that of others that it starts, nor of the collector beside it.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := thread()
	f()
	return thread() - before
}

// thread returns the CPU time of the calling thread.
func thread() time.Duration {
	const rusageThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
