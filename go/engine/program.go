package engine

import (
	"runtime/debug"
	"runtime/metrics"
	"slices"

	"github.com/quern-llm/quern/go/mem"
)

// programBytes is an allowance for memory that the runtime does not count: stacks of threads, plans, page
// tables.
const programBytes = 16 << 20

// heapPurposes are those of the budget that are parts of the Go heap which programs and engines reserve as they use
// them.
var heapPurposes = []string{"answers", "request bodies", "prompts", requestsPurpose}

// A heapPart is a part of the Go heap with its own purpose in the budget.
type heapPart struct {
	taken *mem.Reservation
	bytes func() uint64
}

// Count gives a part of the Go heap, such as a cache with its own limit, its own purpose in the budget: its
// bytes are counted at each Adjust, and no longer as the program's.
func (d *Device) Count(purpose string, bytes func() uint64) {
	r, _ := d.budget.Reserve(purpose, 0) // nothing is always free
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heap = append(d.heap, heapPart{r, bytes})
}

// measure updates the program's memory in the budget.
func (d *Device) measure() {
	d.mu.Lock()
	parts := slices.Clone(d.heap)
	d.mu.Unlock()
	counted := uint64(0)
	for _, p := range parts {
		n := p.bytes()
		p.taken.Set(n)
		counted += n
	}
	if d.program != nil {
		n := ProgramBytes(d.budget)
		d.program.Set(n - min(n, counted))
	}
}

// Collect runs the garbage collector and updates the program's memory in the budget.
func (d *Device) Collect() {
	debug.FreeOSMemory()
	d.measure()
}

// ProgramBytes returns the memory of this process outside the budget's reservations.
func ProgramBytes(b *mem.Budget) uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	heap := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	by := b.ByPurpose()
	counted := uint64(0) // of the heap
	for _, purpose := range heapPurposes {
		counted += by[purpose]
	}
	return heap - min(heap, counted) + programBytes
}
