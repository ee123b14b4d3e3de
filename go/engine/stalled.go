package engine

import (
	"sync/atomic"
	"time"
)

// StallTime is how long a loop may take between two passes, with requests to serve, before it counts as
// stalled. Passes are planned to take a fraction of a second. One whose weights are read from a slow disk, or
// that waits for other models, may take tens of seconds: it must not end a process that works.
const StallTime = 2 * time.Minute

// A pulse records when a loop last began a turn, and how many requests it has. It is read without the loop's
// lock, which a stalled loop may hold.
type pulse struct {
	beat atomic.Int64 // time since the loop began, of the last turn; 0: it waits to be woken
	work atomic.Int64 // requests
}

// stalled returns how long the loop's turn has taken if there are requests.
func (l *Loop) stalled() time.Duration {
	beat := l.pulse.beat.Load()
	if beat == 0 || l.pulse.work.Load() == 0 {
		return 0
	}
	return max(l.now()-time.Duration(beat), 0)
}

// Stalled returns the longest time for which a loop of the device has had requests and finished no pass. It
// never waits for a loop.
func (d *Device) Stalled() (longest time.Duration) {
	for _, l := range d.running() {
		longest = max(longest, l.stalled())
	}
	return longest
}
