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

// A Guard handles failed reads of a mapped file's pages, after the file was truncated or on a disk error: the
// page reads as zeros, and the Guard is marked. Without one, such a read kills the process with SIGBUS. It is
// safe for concurrent use.
type Guard struct {
	n C.int32_t

	mu     sync.Mutex
	closed bool
	last   bool // what Faulted was when it was closed
}

// NewGuard guards a mapping. It returns nil, which guards nothing, if there are too many guards or b is
// empty, and on Windows, which lets nobody truncate a file that is mapped.
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

// Faulted reports whether a page could not be read. All pages from that one on are zeros.
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

// Close removes the guard. It must be called before the pages are unmapped. Closing again is a no-op.
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
