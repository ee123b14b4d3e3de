package measure

import (
	"fmt"
	"math"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// A Roofline is the machine's peak memory bandwidth and multiply-add throughput, with
// the threads of one pool: upper bounds for anything that reads weights and multiplies
// by them.
type Roofline struct {
	ReadBytesPerSec float64 // sustained, from memory
	Int8MACPerSec   float64 // multiply-adds, in registers
}

const (
	// readBuffer is twice the largest last-level cache known, so that memory is
	// measured.
	readBuffer = 1 << 30
	// leastBuffer is the minimum, for machines with little memory.
	leastBuffer = 64 << 20
	// Each measurement is the best of several: other load and clock changes only ever
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
	// Untouched pages all map to one cached page of zeros.
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

// measureInt8 runs long enough that starting the threads is negligible.
func measureInt8(pool *kernel.Pool) float64 {
	for rounds := 1 << 16; ; rounds *= 2 {
		start := time.Now()
		v := pool.MeasureInt8(rounds)
		if time.Since(start) >= rooflineRun || rounds >= 1<<30 {
			return v
		}
	}
}

// readBufferBytes limits the buffer to a quarter of a small machine's memory.
func readBufferBytes() uint64 {
	m, err := machine.Read()
	if err != nil {
		return leastBuffer
	}
	limit, _ := m.MemoryLimit()
	return max(min(readBuffer, limit/4), leastBuffer)
}
