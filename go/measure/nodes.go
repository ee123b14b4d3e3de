package measure

import (
	"runtime"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

const (
	acrossRuns = 3
	acrossMost = time.Second // for each pair of nodes
)

// ReadAcross returns the bytes per second at which the threads of each place read memory of each place's node: [i][j]
// of place i from the node of place j. Where memory may not be placed, nothing is measured: see mem.MayPlace.
func ReadAcross(places []machine.Place) ([][]float64, error) {
	if err := mem.MayPlace(machine.Placement{Places: places}.Nodes()); err != nil {
		return nil, err
	}
	all := make([][]float64, len(places))
	bytes := acrossBytes(readBufferBytes(), len(places))
	for i, p := range places {
		all[i] = make([]float64, len(places))
		for j, from := range places {
			var err error
			if all[i][j], err = readFrom(p, from.Node, bytes); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// acrossBytes returns how much one of so many places reads: as many times its last-level caches as all read of theirs.
func acrossBytes(all uint64, places int) uint64 { return max(all/uint64(places), leastBuffer) }

// readFrom measures the threads of a place, of which the caller's is the first.
func readFrom(p machine.Place, node int, bytes uint64) (best float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	caller := machine.ThisThread()
	caller.KeepOn(p.CPUs)
	defer caller.KeepOn(nil)
	pool, err := kernel.NewPool(p.Threads, nil) // they inherit its CPUs
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	memory := []machine.Place{{Node: node, Threads: p.Threads}}
	err = withBuffer(pool, memory, bytes, func(region []byte) {
		runs(acrossRuns, time.Now().Add(acrossMost), func() { best = max(best, pool.MeasureRead(region, 1)) })
	})
	return best, err
}
