package mem

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// DontNeed releases the whole pages within [off, off+n) of a mapped file, so that they no longer count as
// this process's memory. The bytes stay readable and are read again from the page cache or the disk. It does
// nothing for a static region, and returns an error for an allocated one, whose bytes would be lost.
func (r *Region) DontNeed(off, n int) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if off < 0 || n < 0 || off > len(r.b) || n > len(r.b)-off {
		return fmt.Errorf("mem: [%d,+%d) is outside a region of %d bytes", off, n, len(r.b))
	}
	if r.static {
		return nil
	}
	if !r.file {
		return errors.New("mem: only a mapped file can be dropped and read again")
	}
	// A page that reaches over either end may hold a neighbor still in use; the last page of the file has no
	// neighbor after it.
	page := int(pageSize)
	from, to := int(roundUp(uint64(off), pageSize)), (off+n)/page*page
	if off+n == len(r.b) {
		to = len(r.b)
	}
	if from >= to {
		return nil
	}
	return unix.Madvise(r.b[from:to], unix.MADV_DONTNEED)
}

// Cold tells the kernel that the pages of a mapped file will not be needed soon: they are reclaimed first
// when memory is short (MADV_COLD).
func (r *Region) Cold() {
	if r.file && !r.static && !r.closed.Load() {
		_ = unix.Madvise(r.b, unix.MADV_COLD) // before Linux 5.4 the kernel finds out by itself
	}
}

// Discard returns the whole pages within [off, off+n) of an allocated region to the
// kernel. They read as zeros, and are allocated again when they are written.
func (r *Region) Discard(off, n int) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if r.file || r.static {
		return errors.New("mem: only allocated memory can be discarded")
	}
	if off < 0 || n < 0 || off > len(r.b) || n > len(r.b)-off {
		return fmt.Errorf("mem: [%d,+%d) is outside a region of %d bytes", off, n, len(r.b))
	}
	page := int(pageSize)
	from, to := int(roundUp(uint64(off), pageSize)), (off+n)/page*page
	if from >= to {
		return nil
	}
	return unix.Madvise(r.b[from:to], unix.MADV_DONTNEED)
}

// Move moves the pages of [from, from+n) of an allocated region to [to, to+n), and frees the pages that were
// there; the source then reads as zeros. All arguments are multiples of HugePage, and the ranges do not
// overlap. It fails without changes on kernels before 5.7.
func (r *Region) Move(to, from, n int) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if r.file || r.static {
		return errors.New("mem: only allocated memory can be moved")
	}
	if min(to, from, n) < 0 || n > len(r.b)-max(to, from) || (to|from|n)%HugePage != 0 || max(to, from)-min(to, from) < n {
		return fmt.Errorf("mem: [%d,+%d) cannot be moved to %d in a region of %d bytes", from, n, to, len(r.b))
	}
	if n == 0 {
		return nil
	}
	const flags = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED | unix.MREMAP_DONTUNMAP
	_, _, errno := unix.Syscall6(unix.SYS_MREMAP, uintptr(unsafe.Pointer(&r.b[from])), uintptr(n), uintptr(n), flags, uintptr(unsafe.Pointer(&r.b[to])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Ahead asks the kernel to read [off, off+n) of a mapped file in the background.
func (r *Region) Ahead(off, n int) error { return r.advise(off, n, unix.MADV_WILLNEED) }

// Random tells the kernel that the pages around [off, off+n) of a mapped file are accessed in random order,
// which disables read-ahead.
func (r *Region) Random(off, n int) error { return r.advise(off, n, unix.MADV_RANDOM) }

// advise advises the kernel on the pages of a mapped file around [off, off+n).
func (r *Region) advise(off, n, advice int) error {
	if off < 0 || n < 0 || off > len(r.b) || n > len(r.b)-off {
		return fmt.Errorf("mem: [%d,+%d) is outside a region of %d bytes", off, n, len(r.b))
	}
	page := int(pageSize)
	if from := off / page * page; r.file && off+n > from {
		return unix.Madvise(r.b[from:off+n], advice)
	}
	return nil
}

// Present reports whether [off, off+n) of a mapped file is in the page cache. It also returns true if the
// kernel does not tell, as for files of other users.
func (r *Region) Present(off, n int) bool {
	if off < 0 || n <= 0 || off > len(r.b) || n > len(r.b)-off || !r.file || r.static {
		return true
	}
	page := int(pageSize)
	from := off / page * page
	pages := make([]byte, (off+n-from+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&r.b[from])), uintptr(off+n-from), uintptr(unsafe.Pointer(&pages[0])))
	return errno != 0 || !slices.ContainsFunc(pages, func(p byte) bool { return p&1 == 0 })
}

// Huge asks for huge pages in [off, off+n) of an allocated region, where whole ones fit.
func (r *Region) Huge(off, n int) error {
	if off < 0 || n < 0 || off > len(r.b) || n > len(r.b)-off || off%int(pageSize) != 0 {
		return fmt.Errorf("mem: [%d,+%d) is outside a region of %d bytes, or not of whole pages", off, n, len(r.b))
	}
	_ = unix.Madvise(r.b[off:off+n], unix.MADV_HUGEPAGE) // EINVAL from a kernel without huge pages
	return nil
}

// Prefault makes the region's pages present now, on the given number of threads, so that no later access
// takes a page fault: it zeroes the pages of an allocated region and reads those of a file.
func (r *Region) Prefault(threads int) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if len(r.b) == 0 || r.static {
		return nil
	}
	share := int(roundUp(uint64(len(r.b)/max(threads, 1))+1, HugePage))
	var wg sync.WaitGroup
	errs := make([]error, (len(r.b)+share-1)/share)
	for i := range errs {
		part := r.b[i*share : min((i+1)*share, len(r.b))]
		wg.Go(func() { errs[i] = r.populate(part) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// populate makes the pages of part present. MADV_POPULATE needs Linux 5.14. On older kernels pages of memory
// are touched, and those of a file only read ahead: touching a page that was truncated away would be fatal.
func (r *Region) populate(part []byte) error {
	if r.file {
		err := unix.Madvise(part, unix.MADV_POPULATE_READ)
		if errors.Is(err, unix.EINVAL) {
			err = unix.Madvise(part, unix.MADV_WILLNEED)
		}
		return err
	}
	err := unix.Madvise(part, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		touch(part)
		return nil
	}
	return err
}

// touch writes to each page without changing it, even while others write.
func touch(b []byte) {
	for i := 0; i+4 <= len(b); i += int(pageSize) {
		atomic.AddUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}
