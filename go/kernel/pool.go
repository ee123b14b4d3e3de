package kernel

/*
#include "quern.h"
#cgo nocallback qn_pack_mat
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// MaxThreads is the maximum number of threads of a Pool.
const MaxThreads = 1024

// A Pool is a set of threads; the first is the goroutine that runs a plan. It runs one plan at a time and is
// not safe for concurrent use, except for Threads.
type Pool struct {
	c       *C.struct_qn_pool
	threads atomic.Int32
}

// NewPool starts threads-1 workers. cpus names the CPU of each thread, or is
// nil to leave them unpinned; cpus[0] is not used, since the first thread belongs to
// the caller.
func NewPool(threads int, cpus []int) (*Pool, error) {
	p := &Pool{}
	if err := p.Resize(threads, cpus); err != nil {
		return nil, err
	}
	return p, nil
}

// Resize replaces the workers by those that NewPool would start. If it fails, nothing has changed. Results do
// not depend on the number of threads.
func (p *Pool) Resize(threads int, cpus []int) error {
	if threads < 1 || threads > MaxThreads {
		return fmt.Errorf("%d threads, want 1 to %d", threads, MaxThreads)
	}
	if cpus != nil && len(cpus) < threads {
		return fmt.Errorf("%d CPUs for %d threads, want one for each", len(cpus), threads)
	}
	var pins *C.int32_t
	if cpus != nil {
		ids := make([]C.int32_t, threads)
		for i := range ids {
			ids[i] = C.int32_t(cpus[i])
		}
		pins = unsafe.SliceData(ids)
	}
	choose()
	var c *C.struct_qn_pool
	if rc := C.qn_pool_create(&c, pins, C.int32_t(threads)); rc != C.QN_OK {
		return status(rc, fmt.Sprintf("pool of %d threads", threads))
	}
	p.Close()
	p.c = c
	p.threads.Store(int32(threads))
	return nil
}

// Threads returns the number of threads, including the caller's.
func (p *Pool) Threads() int { return int(p.threads.Load()) }

// Close stops the workers. Closing again is a no-op.
func (p *Pool) Close() {
	if p.c != nil {
		C.qn_pool_destroy(p.c)
		p.c = nil
	}
}

func (p *Pool) mustBeOpen() {
	if p.c == nil {
		panic("kernel: pool is closed")
	}
}

// PackMat packs src, which is in Rows, into dst with all threads. It returns ErrNotFinite if a weight is not
// finite.
func (p *Pool) PackMat(dst []byte, src Matrix) error {
	p.mustBeOpen()
	if err := src.check(); err != nil {
		return err
	}
	packed := src
	packed.Layout, packed.Data = X16, dst
	if src.Layout != Rows || src.Data == nil || dst == nil {
		return shapeErr("pack a matrix of layout %d", src.Layout)
	}
	if err := packed.check(); err != nil {
		return err
	}
	// A copy in C memory: the struct holds a pointer, and a Go struct passed to C may not hold one.
	m := (*C.struct_qn_mat)(calloc(1, C.sizeof_struct_qn_mat))
	defer free(unsafe.Pointer(m))
	*m = src.c()
	return status(C.qn_pack_mat(p.c, unsafe.Pointer(unsafe.SliceData(dst)), m), "pack")
}

// MeasureRead returns the bytes per second at which the pool reads b, each thread its own part, `rounds`
// times.
func (p *Pool) MeasureRead(b []byte, rounds int) float64 {
	p.mustBeOpen()
	return float64(C.qn_measure_read(p.c, unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)), C.int32_t(rounds)))
}

// MeasureCopy returns the bytes per second at which the pool copies src to dst, of the same length, each
// thread its own part, `rounds` times.
func (p *Pool) MeasureCopy(dst, src []byte, rounds int) float64 {
	p.mustBeOpen()
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernel: copy of %d bytes to %d", len(src), len(dst)))
	}
	return float64(C.qn_measure_copy(p.c, unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)),
		C.size_t(len(src)), C.int32_t(rounds)))
}

// MeasureInt8 returns the 8-bit multiply-adds per second that the pool reaches in registers with the
// instruction set in use.
func (p *Pool) MeasureInt8(rounds int) float64 {
	p.mustBeOpen()
	return float64(C.qn_measure_int8(p.c, C.int64_t(rounds)))
}
