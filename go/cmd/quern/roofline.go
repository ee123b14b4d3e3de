package main

import (
	"fmt"
	"math"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// A roofline is how fast the machine can read memory and multiply, with the
// threads of one pool. Nothing that reads weights and multiplies by them can
// be faster than both allow.
type roofline struct {
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

// measureRoofline takes about two seconds.
func measureRoofline(pool *kernel.Pool) (roofline, error) {
	region, err := mem.Alloc(readBufferBytes(), "the measurement of bandwidth")
	if err != nil {
		return roofline{}, err
	}
	defer region.Close()
	// Pages that were never written to are all one page of zeros, in the cache.
	if err := region.Prefault(pool.Threads()); err != nil {
		return roofline{}, fmt.Errorf("measurement of bandwidth: %w", err)
	}
	var r roofline
	for range rooflineRuns {
		r.ReadBytesPerSec = max(r.ReadBytesPerSec, pool.MeasureRead(region.Bytes(), 1))
		r.Int8MACPerSec = max(r.Int8MACPerSec, measureInt8(pool))
	}
	if !(r.ReadBytesPerSec > 0 && r.Int8MACPerSec > 0) || math.IsInf(r.ReadBytesPerSec+r.Int8MACPerSec, 0) {
		return roofline{}, fmt.Errorf("measured %g bytes/s and %g multiply-adds/s, which cannot be; --no-roofline skips this", r.ReadBytesPerSec, r.Int8MACPerSec)
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

// A cost is what a forward pass of a model reads and multiplies.
type cost struct {
	bytes, macs             float64 // of every token's layers, without experts
	expertBytes, expertMACs float64 // of all experts together
	outputBytes, outputMACs float64 // where logits are wanted
	kvBytes                 float64 // of one position
	nExpert, nUsed          int
}

// step returns the least seconds of a forward pass of n tokens of a sequence
// that has pos before them; the last one's logits are wanted if out is set.
func (r roofline) step(c cost, n, pos int, out bool) float64 {
	tokens := float64(n)
	bytes := c.bytes + c.kvBytes*float64(pos+n)
	macs := c.macs * tokens
	if c.nExpert > 0 {
		// Of experts chosen at random, some serve several tokens.
		used := float64(c.nUsed) / float64(c.nExpert)
		bytes += c.expertBytes * (1 - math.Pow(1-used, tokens))
		macs += c.expertMACs * used * tokens
	}
	if out {
		bytes += c.outputBytes
		macs += c.outputMACs
	}
	return max(bytes/r.ReadBytesPerSec, macs/r.Int8MACPerSec)
}

// speed returns the most tokens per second of a test: a prompt in slices of
// ubatch, then tokens one by one, after depth others.
func (r roofline) speed(c cost, prompt, gen, depth, ubatch int) float64 {
	var seconds float64
	for done := 0; done < prompt; {
		n := min(ubatch, prompt-done)
		seconds += r.step(c, n, depth+done, done+n == prompt)
		done += n
	}
	for i := range gen {
		seconds += r.step(c, 1, depth+prompt+i, true)
	}
	return float64(prompt+gen) / seconds
}
