// Package mem manages memory outside the Go heap (mapped model files and anonymous memory) and the budget
// from which every large allocation is reserved. The garbage collector neither scans nor moves a Region, so
// its addresses may be stored in C structs for as long as the Region is open.
package mem

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/quern-llm/quern/go/platform"
)

// HugePage is the alignment of an allocated Region: the size of a huge page on x86-64, and on Arm with 4 KiB
// pages.
const HugePage = 2 << 20

// ErrClosed reports that a Region was closed.
var ErrClosed = errors.New("mem: region is closed")

// A Region is a mapping or a part of one. The zero Region is empty. Its methods may be called concurrently,
// but not while the region is being closed.
type Region struct {
	b      []byte
	file   bool
	space  bool // of Space
	static bool // the program's own: see Static
	closed atomic.Bool
	freed  func() // releases the reservation; nil if there is none
	before func() // called before the bytes are unmapped; nil: nothing is

	of  *os.File    // of a mapped file: for Unchanged
	was os.FileInfo // when it was mapped
}

// Unchanged reports whether the mapped file, whatever its current name, has been neither written nor
// truncated since. It is true for a region without a file.
func (r *Region) Unchanged() bool {
	if r.of == nil {
		return true
	}
	fi, err := r.of.Stat()
	return err == nil && r.Is(fi)
}

// Is reports whether fi describes the mapped file as it was when it was mapped.
func (r *Region) Is(fi os.FileInfo) bool {
	return os.SameFile(fi, r.was) && fi.Size() == r.was.Size() && fi.ModTime().Equal(r.was.ModTime())
}

// BeforeUnmap sets a function that Close calls before it unmaps the bytes.
func (r *Region) BeforeUnmap(f func()) { r.before = f }

// Map maps the named regular file, read-only.
//
// The mapping shares the file's pages. If another process truncates the file while it is mapped, accessing a
// page beyond the new end kills this process with SIGBUS, unless a kernel.Guard handles that. To replace a
// model, rename a new file over it, which leaves the mapped one intact. Windows refuses both.
func Map(name string) (*Region, error) {
	// Stat before opening: opening a FIFO would block until there is a writer, and
	// opening a device may have side effects.
	fi, err := os.Stat(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	if err := mappable(name, fi); err != nil {
		return nil, err
	}
	f, err := platform.Open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	if fi, err = f.Stat(); err != nil {
		f.Close()
		return nil, fileError(name, err)
	}
	if err := mappable(name, fi); err != nil {
		f.Close()
		return nil, err // the file was replaced since the stat
	}
	b, err := platform.MapFile(f, uint64(fi.Size()))
	if err != nil {
		f.Close()
		return nil, fileError(name, err)
	}
	return &Region{b: b, file: true, of: f, was: fi}, nil
}

// fileError returns an error of a file, without the name of the system call.
func fileError(name string, err error) error {
	var call *fs.PathError
	if errors.As(err, &call) {
		err = call.Err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// mappable returns an error for files that cannot be mapped.
func mappable(name string, fi os.FileInfo) error {
	what := "a device or socket"
	switch mode := fi.Mode(); {
	case mode.IsRegular() && fi.Size() > 0:
		return nil
	case mode.IsRegular():
		what = "empty"
	case mode.IsDir():
		what = "a directory"
	case mode&os.ModeNamedPipe != 0:
		what = "a pipe"
	}
	return fmt.Errorf("%s: it is %s; give a regular file with contents", name, what)
}

// Alloc returns n zeroed bytes that start on a HugePage boundary, on huge pages if at least one fits.
// Physical memory is allocated on first touch. purpose names the allocation in errors. Nothing is reserved:
// see Budget.Alloc.
func Alloc(n uint64, purpose string) (*Region, error) {
	fail := func(why any) (*Region, error) {
		return nil, fmt.Errorf("allocate %s for %s: %v", FormatBytes(n), purpose, why)
	}
	if n == 0 {
		return fail("nothing to allocate")
	}
	if n > math.MaxInt64-2*HugePage {
		return fail("more than an address space holds")
	}
	b, err := platform.Allocate(n, HugePage)
	if err != nil {
		return fail(err)
	}
	if n >= HugePage {
		platform.HugePages(b, true)
	}
	return &Region{b: b}, nil
}

// Space returns n bytes of address space, without huge pages. A part is usable after Commit: physical memory is allocated on
// first write and returned by Discard; nothing is reserved. The space may be larger than the machine's memory.
func Space(n uint64, purpose string) (*Region, error) {
	if n == 0 || n > math.MaxInt64-HugePage {
		return nil, fmt.Errorf("reserve %s of addresses for %s: want 1 byte or more, and what an address space holds", FormatBytes(n), purpose)
	}
	b, err := platform.Reserve(n, HugePage)
	if err != nil {
		return nil, fmt.Errorf("reserve %s of addresses for %s: %w", FormatBytes(n), purpose, err)
	}
	platform.HugePages(b, false)
	return &Region{b: b, space: true}, nil
}

// Static returns a region of bytes that exist for the life of the process, such as an embedded file. They
// need not be page-aligned and share pages with other data, so advice is a no-op and closing unmaps nothing.
func Static(b []byte) *Region { return &Region{b: b, static: true} }

// Bytes returns the region's bytes, or nil once it is closed. The bytes of a mapped file and static ones must
// not be written. None may be used after Close.
func (r *Region) Bytes() []byte {
	if r.closed.Load() {
		return nil
	}
	return r.b
}

// Close unmaps the region and releases its reservation. Closing again is a no-op.
func (r *Region) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	if r.before != nil {
		r.before()
	}
	var err error
	switch {
	case r.static:
	case r.file:
		err = platform.Unmap(r.b)
	default:
		err = platform.Free(r.b)
	}
	r.b = nil
	if r.of != nil {
		r.of.Close()
	}
	if r.freed != nil {
		r.freed()
	}
	return err
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// check returns an error unless [off, off+n) is in the region.
func (r *Region) check(off, n int) error {
	if off < 0 || n < 0 || off > len(r.b) || n > len(r.b)-off {
		return fmt.Errorf("mem: [%d,+%d) is outside a region of %d bytes", off, n, len(r.b))
	}
	return nil
}

// pages returns the bounds of the whole pages within [off, off+n); there are none where from is not before to. A page that reaches
// over either end may hold a neighbor still in use; the last page of the region has no neighbor after it.
func (r *Region) pages(off, n int) (from, to int) {
	page := platform.PageSize
	from, to = int(roundUp(uint64(off), uint64(page))), (off+n)/page*page
	if off+n == len(r.b) {
		to = len(r.b)
	}
	return from, to
}

func addr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
