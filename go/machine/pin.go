package machine

import "golang.org/x/sys/unix"

// Pin restricts the calling thread to a CPU, unless that is below 0. What it
// returns lets the thread run where it could before. Where the kernel refuses,
// nothing is pinned: it is a matter of speed only.
func Pin(cpu int) (unpin func()) {
	var before, only unix.CPUSet
	if cpu < 0 || unix.SchedGetaffinity(0, &before) != nil {
		return func() {}
	}
	only.Set(cpu)
	if unix.SchedSetaffinity(0, &only) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetaffinity(0, &before) }
}
