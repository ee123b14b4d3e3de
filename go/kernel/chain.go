package kernel

/*
#include "quern.h"
#cgo noescape qn_run
#cgo nocallback qn_run
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// A Chain is plans that run in sequence in one call.
type Chain struct {
	plans []*Plan // borrowed
	c     []C.struct_qn_plan
}

// A Stop ends the run of a Chain before its next plan. It is safe for concurrent use.
type Stop struct{ word atomic.Uint32 }

// Set stops all runs with s, current and later ones.
func (s *Stop) Set() { s.word.Store(1) }

// IsSet reports whether s, which may be nil, is set.
func (s *Stop) IsSet() bool { return s != nil && s.word.Load() != 0 }

// NewChain returns a Chain of plans over the same buffers. The caller closes it before the plans.
func NewChain(plans ...*Plan) *Chain {
	return &Chain{plans, unsafe.Slice((*C.struct_qn_plan)(calloc(len(plans), C.sizeof_struct_qn_plan)), len(plans))}
}

// Plans returns the plans, to be run one at a time.
func (ch *Chain) Plans() []*Plan { return ch.plans }

// Close frees the Chain, but not its plans. Closing again is a no-op.
func (ch *Chain) Close() {
	free(unsafe.Pointer(unsafe.SliceData(ch.c)))
	ch.plans, ch.c = nil, nil
}

// Run executes the plans over the batch, like [Plan.Run], in one call that does not allocate. It reports
// whether all of them ran: once stop (may be nil) is set, no further plan starts.
func (ch *Chain) Run(pool *Pool, bufs *Buffers, b *Batch, scratch []byte, stop *Stop) bool {
	for i, p := range ch.plans {
		p.ready(pool, bufs, b, scratch)
		p.lay(&ch.c[i])
	}
	n := run(pool, unsafe.SliceData(ch.c), len(ch.c), bufs, b, scratch, stop)
	for _, p := range ch.plans[:n] {
		p.count()
	}
	return n == len(ch.plans)
}

func run(pool *Pool, plans *C.struct_qn_plan, n int, bufs *Buffers, b *Batch, scratch []byte, stop *Stop) int {
	return int(C.qn_run(pool.c, plans, C.int32_t(n), bufs.c, b.c, unsafe.Pointer(unsafe.SliceData(scratch)),
		C.size_t(len(scratch)), (*C.uint32_t)(unsafe.Pointer(stop))))
}
