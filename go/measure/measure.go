// Package measure measures the machine's roofline, and the kernels alone, each as
// a plan of one operation on the threads and through the executor that a model
// would use.
//
// Products and attention are measured from memory, over more of it than a cache
// holds, and products also on weights that stay in the caches: the first shows
// what reading costs, the second what the arithmetic does. What is measured is
// made of random bytes, since speed does not depend on them.
package measure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// A Kernel is what a row measures.
type Kernel string

const (
	Pack      Kernel = "pack"      // rows of a file into panels
	Matmul    Kernel = "matmul"    // a matrix times activations
	Attention Kernel = "attention" // queries of a sequence over its keys and values
	Norm      Kernel = "norm"      // RMS norm, and its result as 8-bit activations
	Quantize  Kernel = "quantize"  // the same without the norm
)

// A Result is a kernel with one type and number of tokens.
type Result struct {
	Kernel    Kernel
	Type      string // of the weights, or of keys and values
	Tokens    int    // at once; 0 for packing
	Depth     int    // positions before them, of attention
	FromCache bool   // what it reads stays in the caches

	Samples []time.Duration // of one run each
	Bytes   float64         // of weights, of keys and values or of floats that a run reads
	MACs    float64         // multiply-adds of a run
	Copies  []time.Duration // of packing: copies of as many bytes, made in turns with it
}

// Median returns the median of samples.
func Median[T ~int64 | ~uint64](samples []T) T {
	s := slices.Sorted(slices.Values(samples))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// A KV is a type of keys and values, and what it is called.
type KV struct {
	Name string
	Type kernel.KVTypes
}

// A Bench says what to measure.
type Bench struct {
	Pool    *kernel.Pool
	Memory  []byte // outside the Go heap: half for what is packed, half for the result
	Budget  *mem.Budget
	Types   []kernel.Type // of weights
	KV      []KV
	Tokens  []int
	Depth   int // of attention
	Repeats int // samples of each
}

// Run measures it all and calls yield with each result. It stops early with
// yield's error.
func (b *Bench) Run(yield func(*Result) error) error {
	rows, _ := b.halves()
	fill(rows)
	for _, t := range b.Types {
		if err := b.weights(t, yield); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	fill(b.Memory)
	for _, kv := range b.KV {
		if err := b.attention(kv, yield); err != nil {
			return fmt.Errorf("keys and values in %s: %w", kv.Name, err)
		}
	}
	return b.vectors(yield)
}

// halves are where rows lie, and where they are packed to.
func (b *Bench) halves() (rows, packed []byte) {
	half := len(b.Memory) / 2 / kernel.Align * kernel.Align
	return b.Memory[:half], b.Memory[half : 2*half]
}

// fill makes random bytes that are blocks of any type. Two bits of each are not
// random: with them no float of any width, as a weight or as a scale, is
// infinite or NaN, and none is so small that arithmetic with it is slow.
func fill(b []byte) {
	random := rand.New(rand.NewPCG(1, 2))
	head := b[:min(len(b), 1<<20)]
	words := mem.Uint32s(head[:len(head)/4*4])
	for i := range words {
		words[i] = random.Uint32()&0xbfbfbfbf | 0x20202020
	}
	for done := len(head); done < len(b); {
		done += copy(b[done:], b[:done])
	}
}

// leastSample is how long a sample takes at least: so long that neither the
// clock nor waking the threads shows.
const leastSample = 10 * time.Millisecond

// sample measures run, which does what r is about some times. It is called with
// a number that counts the calls.
func (b *Bench) sample(r *Result, times int, run func(i int)) {
	calls, each := 0, 1
	timed := func() time.Duration {
		start := time.Now()
		for range each {
			run(calls)
			calls++
		}
		return time.Since(start)
	}
	for took := timed(); took < leastSample; took = timed() {
		each = max(2*each, int(int64(each)*int64(leastSample)/max(int64(took), 1))+1)
	}
	for range b.Repeats {
		r.Samples = append(r.Samples, timed()/time.Duration(each*times))
	}
}
