package measure

import (
	"fmt"
	"math"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// A Roofline is how fast the machine can read memory and multiply, with the
// threads of one pool. Nothing that reads weights and multiplies by them can
// be faster than both allow.
type Roofline struct {
	ReadBytesPerSec float64 // sustained, from memory
	Int8MACPerSec   float64 // multiply-adds, in registers
}

const (
	// readBuffer is twice the largest last-level cache in sight, so that what
	// is measured is memory.
	readBuffer = 1 << 30
	// leastBuffer is what a machine with little memory reads instead.
	leastBuffer = 64 << 20
	// Each measurement is the best of several: neighbours and clocks only ever
	// slow one down.
	rooflineRuns = 5
	rooflineRun  = 100 * time.Millisecond
)

// NewRoofline measures it, which takes about two seconds.
func NewRoofline(pool *kernel.Pool) (Roofline, error) {
	region, err := mem.Alloc(readBufferBytes(), "the measurement of bandwidth")
	if err != nil {
		return Roofline{}, err
	}
	defer region.Close()
	// Pages that were never written to are all one page of zeros, in the cache.
	if err := region.Prefault(pool.Threads()); err != nil {
		return Roofline{}, fmt.Errorf("measurement of bandwidth: %w", err)
	}
	var r Roofline
	for range rooflineRuns {
		r.ReadBytesPerSec = max(r.ReadBytesPerSec, pool.MeasureRead(region.Bytes(), 1))
		r.Int8MACPerSec = max(r.Int8MACPerSec, measureInt8(pool))
	}
	if !(r.ReadBytesPerSec > 0 && r.Int8MACPerSec > 0) || math.IsInf(r.ReadBytesPerSec+r.Int8MACPerSec, 0) {
		return Roofline{}, fmt.Errorf("measured %g bytes/s and %g multiply-adds/s, which cannot be; --no-roofline skips this", r.ReadBytesPerSec, r.Int8MACPerSec)
	}
	return r, nil
}

// measureInt8 runs for long enough that starting the threads does not show.
func measureInt8(pool *kernel.Pool) float64 {
	for rounds := 1 << 16; ; rounds *= 2 {
		start := time.Now()
		v := pool.MeasureInt8(rounds)
		if time.Since(start) >= rooflineRun || rounds >= 1<<30 {
			return v
		}
	}
}

// readBufferBytes leaves a machine with little memory three quarters of it.
func readBufferBytes() uint64 {
	m, err := machine.Read()
	if err != nil {
		return leastBuffer
	}
	limit, _ := m.MemoryLimit()
	return max(min(readBuffer, limit/4), leastBuffer)
}
