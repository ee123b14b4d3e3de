package engine

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the CPU time of this process.
func processTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func makePipe(_ *testing.T, path string) error { return unix.Mkfifo(path, 0o600) }

// threadCPUs returns the CPUs that the calling thread may run on.
func threadCPUs(t *testing.T) (ids []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for id := range len(set) * 64 {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return ids
}
