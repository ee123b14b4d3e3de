//go:build unix

package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime returns the CPU time of the calling thread.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(threadClock, &t); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return time.Duration(t.Nano())
}

var started = time.Now()

// Clock returns a time by which short work is measured: it goes on steadily, from any point.
func Clock() time.Duration { return time.Since(started) }
