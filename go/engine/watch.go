package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/machine"
)

// A WatchConfig says how a Device follows its machine.
type WatchConfig struct {
	Machine *machine.Machine // as it was when the device was made
	Memory  uint64           // what the user allows; 0: no limit of theirs
	Threads bool             // the number of threads follows the CPU quota
	Every   time.Duration    // between two readings
	Log     func(line string)
}

// Limit returns the maximum bytes of a device on m and the reason: the machine's limit, or the user's unless
// that is 0.
func Limit(m *machine.Machine, user uint64) (bytes uint64, reason string) {
	bytes, reason = m.MemoryLimit()
	if user > 0 && user < bytes {
		bytes, reason = user, "--memory"
	}
	return bytes, reason
}

// Watch makes the device follow the limits of its machine, which may change at run time, until ctx ends.
func (d *Device) Watch(ctx context.Context, c WatchConfig) {
	w := watcher{WatchConfig: c, device: d, at: time.Now(), last: c.Machine.Pressure()}
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			w.read(now)
		}
	}
}

// A watcher is a device and the last reading of its machine.
type watcher struct {
	WatchConfig
	device *Device
	at     time.Time
	last   machine.Pressure

	refused int // threads that there was no memory for, and that was logged

	throttled, stolen alarm
}

// Shares of the time from which it is logged that CPUs are withheld.
const (
	throttledPart = 0.1 // of the quota's periods
	stolenPart    = 0.1 // of the time of all CPUs
)

// read takes a reading, and makes the device follow it.
func (w *watcher) read(now time.Time) {
	w.Machine = w.Machine.Again()
	p := w.Machine.Pressure()
	passed := max(now.Sub(w.at), time.Millisecond)
	part := func(now, before time.Duration) float64 { return max(now-before, 0).Seconds() / passed.Seconds() }
	r := Reading{Some: part(p.MemorySome, w.last.MemorySome), Full: part(p.MemoryFull, w.last.MemoryFull), Short: w.Machine.Short}
	r.Limit, r.Reason = Limit(w.Machine, w.Memory)
	for _, line := range w.device.Adjust(r) {
		w.Log(line)
	}
	if w.Threads {
		w.follow()
	}
	if periods := p.Periods - min(p.Periods, w.last.Periods); periods > 0 {
		share := float64(p.ThrottledPeriods-min(p.ThrottledPeriods, w.last.ThrottledPeriods)) / float64(periods)
		if w.throttled.rings(share, throttledPart) {
			w.Log(fmt.Sprintf("the CPU quota ran out in %.0f %% of its periods: passes take longer; give more CPUs, or stop what else runs in the group", 100*share))
		}
	}
	if share := part(p.Steal, w.last.Steal) / float64(len(w.Machine.CPUs)); w.stolen.rings(share, stolenPart) {
		w.Log(fmt.Sprintf("the host gave %.0f %% of the CPU time to other guests: passes take longer", 100*share))
	}
	w.at, w.last = now, p
}

// follow adapts the number of threads to the current quota.
func (w *watcher) follow() {
	n, was := w.Machine.Threads(), w.device.Threads()
	if n == was {
		w.refused = 0
		return
	}
	if err := w.device.SetThreads(n, w.Machine.Place(n)); err != nil {
		if w.refused != n {
			w.Log(fmt.Sprintf("%d threads stay, and %d are allowed: %v", was, n, err))
		}
		w.refused = n
		return
	}
	why := fmt.Sprintf("%d cores may be used now", w.Machine.Cores())
	if q, ok := w.Machine.Quota(); ok {
		why = fmt.Sprintf("the CPU quota is %.2f CPUs now, by %s", q.CPUs, q.File)
	}
	w.Log(fmt.Sprintf("threads: %d, %d before: %s", n, was, why))
}

// An alarm rings once when a value reaches a threshold, and again only after the value was below half of it.
type alarm bool

func (a *alarm) rings(v, threshold float64) bool {
	switch {
	case v >= threshold && !bool(*a):
		*a = true
		return true
	case v < threshold/2:
		*a = false
	}
	return false
}
