package machine

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// affinity returns the CPUs on which the process's first thread may run, which
// is where a taskset or a cpuset shows. It returns nil, for all, when the
// kernel does not say.
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

// Restrict has the process keep to some of the CPUs that it may use. It returns
// an error where it may use none of them.
func (m *Machine) Restrict(ids []int) error {
	left := 0
	for i := range m.CPUs {
		c := &m.CPUs[i]
		c.Allowed = c.Allowed && slices.Contains(ids, c.ID)
		if c.Allowed {
			left++
		}
	}
	if left == 0 {
		return errors.New("this process may use none of these CPUs; \"quern doctor\" lists those that it may")
	}
	return nil
}
