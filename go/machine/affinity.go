package machine

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// affinity returns the affinity mask of the process's first thread, which taskset and
// cpusets determine. It returns nil, for all CPUs, if the kernel does not say.
func affinity() []int {
	set := unix.NewCPUSet(maxCPU)
	if err := unix.SchedGetaffinityDynamic(os.Getpid(), set); err != nil {
		return nil
	}
	var ids []int
	for id := range maxCPU {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Restrict removes all but ids from the allowed CPUs. It is an error if none remains.
func (m *Machine) Restrict(ids []int) error {
	left := 0
	for i := range m.CPUs {
		c := &m.CPUs[i]
		c.Allowed = c.Allowed && slices.Contains(ids, c.ID)
		if c.Allowed {
			left++
		}
	}
	m.restricted = true
	if left == 0 {
		return errors.New("this process may use none of these CPUs; \"quern doctor\" lists those that it may")
	}
	return nil
}
