package engine

import (
	"runtime/metrics"

	"github.com/quern-llm/quern/go/mem"
)

// programBytes are for what no runtime counts: stacks of threads, plans, page tables.
const programBytes = 16 << 20

// ProgramBytes returns what this process takes beside what the budget has a purpose for.
func ProgramBytes(b *mem.Budget) uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	heap := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	by := b.ByPurpose()
	counted := by["answers"] + by[requestsPurpose] // of the heap
	return heap - min(heap, counted) + programBytes
}
