package machine

import "golang.org/x/sys/unix"

// A Thread is a thread of the operating system whose affinity may be changed from any other.
type Thread struct {
	id  int
	own unix.CPUSetDynamic // its affinity before; nil: unknown, and left alone
}

// ThisThread returns the calling thread. The caller's goroutine is locked to it for as long as it is used.
func ThisThread() *Thread {
	t := &Thread{unix.Gettid(), unix.NewCPUSet(maxCPU)}
	if unix.SchedGetaffinityDynamic(t.id, t.own) != nil {
		t.own = nil
	}
	return t
}

// KeepOn lets the thread run on these CPUs only; none: where it ran before. Failure is ignored: affinity
// determines only the speed.
func (t *Thread) KeepOn(cpus []int) {
	if t.own == nil {
		return
	}
	set := t.own
	if len(cpus) > 0 {
		set = unix.NewCPUSet(maxCPU)
		for _, id := range cpus {
			set.Set(id)
		}
	}
	_ = unix.SchedSetaffinityDynamic(t.id, set)
}
