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
	// Where the machine is slow or shared, there are fewer, of less memory.
	rooflineMost = 4 * time.Second
)

// NewRoofline measures it, which takes about two seconds, and not much more than four. Each place of the pool's threads
// reads memory on its own node.
func NewRoofline(pool *kernel.Pool, places []machine.Place) (r Roofline, err error) {
	start := time.Now()
	if err := withBuffer(pool, places, leastBuffer, func(region []byte) { pool.MeasureRead(region, 1) }); err != nil {
		return r, err
	}
	err = withBuffer(pool, places, bufferBytes(readBufferBytes(), time.Since(start)), func(region []byte) {
		runs(rooflineRuns, start.Add(rooflineMost), func() {
			r.ReadBytesPerSec = max(r.ReadBytesPerSec, pool.MeasureRead(region, 1))
			r.Int8MACPerSec = max(r.Int8MACPerSec, measureInt8(pool))
		})
	})
	if err != nil {
		return r, err
	}
	if !(r.ReadBytesPerSec > 0 && r.Int8MACPerSec > 0) || math.IsInf(r.ReadBytesPerSec+r.Int8MACPerSec, 0) {
		return Roofline{}, fmt.Errorf("measured %g bytes/s and %g multiply-adds/s, which cannot be", r.ReadBytesPerSec, r.Int8MACPerSec)
	}
	return r, nil
}

// bufferBytes returns how much of a buffer there is time to fill and read, if leastBuffer took so long.
func bufferBytes(most uint64, took time.Duration) uint64 {
	n := uint64(float64(leastBuffer) * (rooflineMost / 4).Seconds() / max(took.Seconds(), 1e-9))
	return min(max(n, leastBuffer), most)
}

// runs calls f n times, or until a time, but at least once.
func runs(n int, until time.Time, f func()) {
	for i := 0; i < n && (i == 0 || time.Now().Before(until)); i++ {
		f()
	}
}

// withBuffer fills a buffer, of which the threads of each place have their part, and calls f with it.
func withBuffer(pool *kernel.Pool, places []machine.Place, n uint64, f func(region []byte)) error {
	region, err := mem.Alloc(n, "the measurement of bandwidth")
	if err != nil {
		return err
	}
	defer region.Close()
	before, part := 0, int(n)/pool.Threads()
	for _, p := range places {
		_ = region.Place(before*part, p.Threads*part, p.Node) // where it is forbidden, the kernel decides
		before += p.Threads
	}
	// Untouched pages all map to one cached page of zeros.
	if err := region.Prefault(pool.Threads()); err != nil {
		return fmt.Errorf("measurement of bandwidth: %w", err)
	}
	f(region.Bytes())
	return nil
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
