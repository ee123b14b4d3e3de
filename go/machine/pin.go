package machine

import "golang.org/x/sys/unix"

// Pin pins the calling thread to a CPU, unless that is below 0. unpin restores the
// thread's affinity. Failure is ignored: pinning affects speed only.
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
