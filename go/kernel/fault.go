package kernel

/*
#include "fault.h"
#cgo nocallback qn_guard
#cgo noescape qn_guard
#cgo nocallback qn_guard_faulted
*/
import "C"

import (
	"sync"
	"unsafe"
)

// A Guard turns reads of a mapped file's pages that fail, since the file was cut or its disk
// does not answer, into zeros and a mark. Without one, such a read kills the process
// with SIGBUS. Its methods are safe for concurrent use.
type Guard struct {
	n C.int32_t

	mu     sync.Mutex
	closed bool
	last   bool // what Faulted was when it was closed
}

// NewGuard guards a mapping; nil guards nothing, where there are too many or b is empty.
func NewGuard(b []byte) *Guard {
	if len(b) == 0 {
		return nil
	}
	n := C.qn_guard(unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)))
	if n < 0 {
		return nil
	}
	return &Guard{n: n}
}

// Faulted reports whether a page could not be read. From that page on all are zeros.
func (g *Guard) Faulted() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.faulted()
}

func (g *Guard) faulted() bool {
	if g.closed {
		return g.last
	}
	return C.qn_guard_faulted(g.n) != 0
}

// Close ends the guard. The pages are unmapped after it. Closing again is a no-op.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.last, g.closed = g.faulted(), true
	C.qn_unguard(g.n)
}
