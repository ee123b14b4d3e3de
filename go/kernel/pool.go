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

// MaxThreads is the maximum number of threads of a Pool, and MaxPlaces that of its places.
const (
	MaxThreads = 1024
	MaxPlaces  = C.QN_PLACES_MAX
)

// A Thread is where a thread of a Pool runs.
type Thread struct {
	CPUs  []int // that it stays on; nil: any
	Place int   // threads with the same number share memory that is nearer to them: a NUMA node
}

// A Pool is a set of threads; the first is the goroutine that runs a plan. It runs one plan at a time and is
// not safe for concurrent use, except for Threads.
type Pool struct {
	c       *C.struct_qn_pool
	threads atomic.Int32
}

// NewPool starts threads-1 workers. at says where each thread runs, in order of places, from 0 on without a gap;
// nil: anywhere, in one place. The CPUs of the first are not used, since it belongs to the caller.
func NewPool(threads int, at []Thread) (*Pool, error) {
	p := &Pool{}
	if err := p.Resize(threads, at); err != nil {
		return nil, err
	}
	return p, nil
}

// Resize replaces the workers by those that NewPool would start. If it fails, nothing has changed. Results do
// not depend on the number of threads.
func (p *Pool) Resize(threads int, at []Thread) error {
	if threads < 1 || threads > MaxThreads {
		return fmt.Errorf("%d threads, want 1 to %d", threads, MaxThreads)
	}
	if at != nil && len(at) < threads {
		return fmt.Errorf("places for %d of %d threads, want one for each", len(at), threads)
	}
	where, free := placed(at[:min(len(at), threads)])
	defer free()
	choose()
	var c *C.struct_qn_pool
	if rc := C.qn_pool_create(&c, where, C.int32_t(threads)); rc != C.QN_OK {
		return status(rc, fmt.Sprintf("pool of %d threads", threads))
	}
	p.Close()
	p.c = c
	p.threads.Store(int32(threads))
	return nil
}

// placed returns threads in C memory, and what frees it; nil for none.
func placed(at []Thread) (where *C.struct_qn_thread, done func()) {
	if len(at) == 0 {
		return nil, func() {}
	}
	cpus := 0
	for _, t := range at {
		cpus += len(t.CPUs)
	}
	list := unsafe.Slice((*C.struct_qn_thread)(calloc(len(at), C.sizeof_struct_qn_thread)), len(at))
	ids := unsafe.Slice((*C.int32_t)(calloc(max(cpus, 1), C.sizeof_int32_t)), cpus)
	done = func() {
		free(unsafe.Pointer(unsafe.SliceData(list)))
		free(unsafe.Pointer(unsafe.SliceData(ids)))
	}
	rest := ids
	for i, t := range at {
		list[i].place, list[i].n_cpus, list[i].cpus = C.int32_t(t.Place), C.int32_t(len(t.CPUs)), unsafe.SliceData(rest)
		for k, id := range t.CPUs {
			rest[k] = C.int32_t(id)
		}
		rest = rest[len(t.CPUs):]
	}
	return unsafe.SliceData(list), done
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
	if dst == nil {
		return shapeErr("pack a matrix into no memory")
	}
	to := src
	to.Layout, to.Data = X16, dst
	return p.PackInto(to, 0, src)
}

// PackInto packs src, which is in Rows, into panels of dst with all threads, those of a place what lies there. Panels
// are numbered over all matrices of dst; the first is number `first`. It returns ErrNotFinite if a weight is not finite, and
// ErrWide if dst is of X12 and weights do not fit it.
func (p *Pool) PackInto(dst Matrix, first int, src Matrix) error {
	p.mustBeOpen()
	if err := src.check(); err != nil {
		return err
	}
	if err := dst.check(); err != nil {
		return err
	}
	if src.Layout != Rows || dst.Layout == Rows || src.Data == nil || dst.Data == nil {
		return shapeErr("pack a matrix of layout %d into layout %d", src.Layout, dst.Layout)
	}
	if first < 0 || dst.Type != src.Type || dst.In != src.In || first+src.N*src.panels() > dst.N*dst.panels() {
		return shapeErr("pack %d matrices of %d x %d %v from panel %d of %d matrices of %d x %d %v on", src.N, src.Out, src.In, src.Type,
			first, dst.N, dst.Out, dst.In, dst.Type)
	}
	// Copies in C memory: the struct holds a pointer, and a Go struct passed to C may not hold one.
	m := unsafe.Slice((*C.struct_qn_mat)(calloc(2, C.sizeof_struct_qn_mat)), 2)
	defer free(unsafe.Pointer(unsafe.SliceData(m)))
	m[0], m[1] = dst.c(), src.c()
	return status(C.qn_pack_mat(p.c, &m[0], C.int64_t(first), &m[1]), "pack")
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
