package main

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/machine"
)

// keepBusy keeps one of the CPUs that Quern uses with this many threads, the last, busy
// until stop is called.
func keepBusy(threads int) (stop func(), err error) {
	m, err := machine.Read()
	if err != nil {
		return nil, err
	}
	cpu := -1 // anywhere, where threads are not pinned either
	if cpus := m.WorkerCPUs(threads); cpus != nil {
		cpu = cpus[len(cpus)-1]
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer machine.Pin(cpu)()
		for !done.Load() {
		}
	})
	return func() {
		done.Store(true)
		wg.Wait()
	}, nil
}
