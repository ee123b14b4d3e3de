package engine

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"

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

	mu    sync.Mutex
	ended bool
}

// count counts n bytes, unless the part has ended meanwhile.
func (p *heapPart) count(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.taken.Set(n)
	}
}

// end ends the count.
func (p *heapPart) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.taken.Release()
}

// Count gives a part of the Go heap, such as a cache with its own limit, its own purpose in the budget: its
// bytes are counted at each Adjust, and no longer as the program's, until stop is called.
func (d *Device) Count(purpose string, bytes func() uint64) (stop func()) {
	r, _ := d.budget.Reserve(purpose, 0) // nothing is always free
	p := &heapPart{taken: r, bytes: bytes}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heap = append(d.heap, p)
	return func() {
		d.mu.Lock()
		d.heap = slices.DeleteFunc(d.heap, func(other *heapPart) bool { return other == p })
		d.mu.Unlock()
		p.end()
	}
}

// measure updates the program's memory in the budget.
func (d *Device) measure() {
	d.mu.Lock()
	parts := slices.Clone(d.heap)
	d.mu.Unlock()
	counted := uint64(0)
	for _, p := range parts {
		n := p.bytes()
		p.count(n)
		counted += n
	}
	if d.program != nil {
		n := ProgramBytes(d.budget)
		d.program.Set(n - min(n, counted))
	}
}

// A goHeap is what a Device knows of Go's heap.
type goHeap struct {
	user  int64  // the limit of GOMEMLIMIT, or the largest number
	base  uint64 // bytes after the last Collect, or at first
	was   uint64 // bytes at the last reading
	since int    // readings since the last Collect
}

const (
	// littleGarbage is not worth a collection before its time.
	littleGarbage = 64 << 20
	// collectEvery is the least number of readings from one such collection to the next.
	collectEvery = 5
	// 1/heapMargin of the limit is neither for the heap nor for other purposes: the collector keeps to its limit only
	// roughly.
	heapMargin = 32
)

// littered reports whether the heap, of n bytes by now, has much more than it grows to by itself, and no longer grows:
// what many long prompts leave behind would else stay for minutes. If memory is short, it need not have ended.
func (h *goHeap) littered(n uint64, short bool) bool {
	grows := n > h.was
	h.was = n
	h.since++
	return n > 2*h.base+littleGarbage && (short || !grows && h.since >= collectEvery)
}

// littered reports so of the program's heap.
func (d *Device) littered(short bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gc.littered(heapBytes(), short)
}

// limitHeap lets the heap grow to what the budget leaves to it, and to what it cannot do without. The collector
// works more as the heap comes near that.
func (d *Device) limitHeap() {
	if d.program == nil {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetMemoryLimit(min(int64(min(d.heapLimit(live[0].Value.Uint64()), math.MaxInt64)), d.gc.user))
}

// heapLimit returns what the heap may grow to, of which so many bytes are alive.
func (d *Device) heapLimit(live uint64) uint64 {
	limit, _ := d.budget.Limit()
	apart := uint64(programBytes) + limit/heapMargin
	for purpose, n := range d.budget.ByPurpose() {
		if purpose != programPurpose && !slices.Contains(heapPurposes, purpose) {
			apart += n
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.heap {
		apart -= min(apart, p.taken.Bytes())
	}
	return max(limit-min(limit, apart), live*5/4+littleGarbage/2)
}

// Collect runs the garbage collector and updates the program's memory in the budget.
func (d *Device) Collect() {
	debug.FreeOSMemory()
	d.mu.Lock()
	d.gc.base, d.gc.since = heapBytes(), 0
	d.mu.Unlock()
	d.measure()
}

// heapBytes returns the memory that Go's runtime has from the system.
func heapBytes() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// ProgramBytes returns the memory of this process outside the budget's reservations.
func ProgramBytes(b *mem.Budget) uint64 {
	heap := heapBytes()
	by := b.ByPurpose()
	counted := uint64(0) // of the heap
	for _, purpose := range heapPurposes {
		counted += by[purpose]
	}
	return heap - min(heap, counted) + programBytes
}
