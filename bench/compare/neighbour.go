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
	cpus := m.Place(threads).CPUs
	if cpus != nil { // otherwise anywhere, as Quern's threads
		cpus = cpus[len(cpus)-1:]
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		t := machine.ThisThread()
		t.KeepOn(cpus)
		defer t.KeepOn(nil)
		for !done.Load() {
		}
	})
	return func() {
		done.Store(true)
		wg.Wait()
	}, nil
}
