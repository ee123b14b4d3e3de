package machine

import (
	"os"

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
