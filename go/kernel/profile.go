package kernel

// #include "quern.h"
import "C"

import (
	"fmt"
	"strings"
	"time"
	"unsafe"
)

// An OpProfile is the times of an operation, summed over all profiled runs of its plan.
type OpProfile struct {
	Kind  string // "Matmul", the name of its struct
	Calls int
	Busy  []time.Duration // of each thread
	Wait  []time.Duration // of each thread, for the others
	Bytes int64           // of weights, keys and values that it read
	MACs  int64           // multiply-adds with them
}

// A ticks is the sums that C adds to, in C memory.
type ticks struct {
	c       *C.struct_qn_ticks
	ops     []C.struct_qn_ticks_op
	times   []C.struct_qn_ticks_time // [op][thread]
	threads int
	runs    int
}

func newTicks(ops, threads int) *ticks {
	t := &ticks{
		c:       (*C.struct_qn_ticks)(calloc(1, C.sizeof_struct_qn_ticks)),
		threads: threads,
	}
	t.c.ops = (*C.struct_qn_ticks_op)(calloc(ops, C.sizeof_struct_qn_ticks_op))
	t.c.times = (*C.struct_qn_ticks_time)(calloc(ops*threads, C.sizeof_struct_qn_ticks_time))
	t.ops = unsafe.Slice(t.c.ops, ops)
	t.times = unsafe.Slice(t.c.times, ops*threads)
	return t
}

func (t *ticks) close() {
	if t != nil {
		free(unsafe.Pointer(t.c.ops))
		free(unsafe.Pointer(t.c.times))
		free(unsafe.Pointer(t.c))
	}
}

// Measure starts a new profile of the runs that follow, in a pool of this many threads. With 0 threads it
// stops profiling.
func (p *Plan) Measure(threads int) {
	p.mustBeOpen()
	if threads < 0 || threads > MaxThreads {
		panic(fmt.Sprintf("kernel: a profile of %d threads", threads))
	}
	p.ticks.close()
	p.ticks = nil
	if threads > 0 {
		p.ticks = newTicks(p.n, threads)
	}
}

// Profile returns the measurements of each operation since Measure.
func (p *Plan) Profile() []OpProfile {
	p.mustBeOpen()
	if p.ticks == nil {
		return nil
	}
	all := make([]OpProfile, p.n)
	for i := range all {
		o := &all[i]
		o.Kind, o.Calls = p.kinds[i], p.ticks.runs
		o.Bytes, o.MACs = int64(p.ticks.ops[i].bytes), int64(p.ticks.ops[i].madds)
		for _, t := range p.ticks.times[i*p.ticks.threads:][:p.ticks.threads] {
			o.Busy = append(o.Busy, time.Duration(t.busy_ns))
			o.Wait = append(o.Wait, time.Duration(t.wait_ns))
		}
	}
	return all
}

// kindOf returns the name of an operation's struct.
func kindOf(op Op) string { return strings.TrimPrefix(fmt.Sprintf("%T", op), "kernel.") }
