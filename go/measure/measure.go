// Package measure measures the machine's roofline, and single kernels, each as a plan
// of one operation on the threads and through the executor that a model would use.
//
// Products and attention are measured from memory, with a working set larger than the
// caches; products also with weights that stay in the caches. The former shows the cost
// of memory traffic, the latter that of the arithmetic. Inputs are random bytes, since
// speed does not depend on values.
package measure

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// A Kernel is the kind of kernel that a row measures.
type Kernel string

const (
	Pack      Kernel = "pack"      // packing of file rows into panels
	Matmul    Kernel = "matmul"    // a matrix times activations
	Attention Kernel = "attention" // queries of a sequence over its keys and values
	Norm      Kernel = "norm"      // RMS norm, with its result quantized to 8-bit activations
	Quantize  Kernel = "quantize"  // quantization without the norm
)

// A Result is a kernel with one type and number of tokens.
type Result struct {
	Kernel    Kernel
	Type      string // of the weights, or of keys and values
	Tokens    int    // per pass; 0 for packing
	Depth     int    // positions before them, for attention
	FromCache bool   // the input stays in the caches

	Samples []time.Duration // one per run
	Bytes   float64         // of weights, keys and values, or floats read by a run
	MACs    float64         // multiply-adds of a run
	Copies  []time.Duration // for packing: copies of the same size, made alternately with it
}

// Median returns the median of samples.
func Median[T ~int64 | ~uint64](samples []T) T {
	s := slices.Sorted(slices.Values(samples))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// A KV is a named type of keys and values.
type KV struct {
	Name string
	Type kernel.KVTypes
}

// A Bench configures the measurements.
type Bench struct {
	Pool    *kernel.Pool
	Memory  []byte // outside the Go heap: half for the input, half for the result
	Budget  *mem.Budget
	Types   []kernel.Type // of weights
	KV      []KV
	Tokens  []int
	Depth   int // of attention
	Repeats int // samples of each
}

// Run runs all measurements and calls yield with each result. It stops at yield's first
// error and returns it.
func (b *Bench) Run(yield func(*Result) error) error {
	b.Fill()
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

// halves returns the two parts of Memory: for rows, and for packed panels.
func (b *Bench) halves() (rows, packed []byte) {
	half := len(b.Memory) / 2 / kernel.Align * kernel.Align
	return b.Memory[:half], b.Memory[half : 2*half]
}

// fill generates random bytes that are valid blocks of any type. Two bits of each byte
// are fixed, so that no float of any width, weight or scale, is infinite, NaN or
// subnormal, which would be slow.
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

// leastSample is the minimum time of a sample: long enough that clock resolution and
// thread wake-up are negligible.
const leastSample = 10 * time.Millisecond

// sample times run, each call of which does r's operation `times` times. i counts the
// calls.
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
