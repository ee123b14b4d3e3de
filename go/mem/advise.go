package mem

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quern-llm/quern/go/platform"
)

// DontNeed releases the whole pages within [off, off+n) of a mapped file, so that they no longer count as
// this process's memory. The bytes stay readable and are read again from the page cache or the disk. It does
// nothing for a static region, and returns an error for an allocated one, whose bytes would be lost.
func (r *Region) DontNeed(off, n int) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if err := r.check(off, n); err != nil {
		return err
	}
	if r.static {
		return nil
	}
	if !r.file {
		return errors.New("mem: only a mapped file can be dropped and read again")
	}
	from, to := r.pages(off, n)
	if from >= to {
		return nil
	}
	return platform.Drop(r.b[from:to])
}

// Cold tells the kernel that the pages of a mapped file will not be needed soon: they are reclaimed first
// when memory is short.
func (r *Region) Cold() {
	if r.file && !r.static && !r.closed.Load() {
		platform.Cold(r.b)
	}
}

// Discard returns the whole pages within [off, off+n) of an allocated region to the
// kernel. They read as zeros, and are allocated again when they are written; in a region of Space they may not be touched
// until Commit.
func (r *Region) Discard(off, n int) error {
	if r.closed.Load() {
		return ErrClosed
	}
	if r.file || r.static {
		return errors.New("mem: only allocated memory can be discarded")
	}
	if err := r.check(off, n); err != nil {
		return err
	}
	from, to := r.pages(off, n)
	if from >= to {
		return nil
	}
	if r.space {
		return platform.Decommit(r.b[from:to])
	}
	return platform.Discard(r.b[from:to])
}

// Move moves the pages of [from, from+n) of an allocated region to [to, to+n), and frees the pages that were
// there; the source then reads as zeros. All arguments are multiples of HugePage, and the ranges do not
// overlap. It fails without changes where the system cannot: on Linux before 5.7, and on all others.
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
	return platform.Move(r.b[to:to+n], r.b[from:from+n])
}

// Commit makes [off, off+n) of a region of Space usable before it is written, and whole pages around it. An error is want of
// memory; there is none on systems that allocate at the first touch. It does nothing for other regions.
func (r *Region) Commit(off, n int) error {
	if err := r.check(off, n); err != nil {
		return err
	}
	if !r.space || n == 0 {
		return nil
	}
	if err := platform.Commit(r.b[off : off+n]); err != nil {
		return fmt.Errorf("no memory for %s: %w", FormatBytes(uint64(n)), err)
	}
	return nil
}

// Ahead asks the kernel to read [off, off+n) of a mapped file in the background.
func (r *Region) Ahead(off, n int) error { return r.advise(off, n, platform.WillNeed) }

// Random tells the kernel that the pages around [off, off+n) of a mapped file are accessed in random order,
// which disables read-ahead.
func (r *Region) Random(off, n int) error { return r.advise(off, n, platform.RandomAccess) }

// advise advises the kernel on the pages of a mapped file around [off, off+n).
func (r *Region) advise(off, n int, advice func([]byte) error) error {
	if err := r.check(off, n); err != nil {
		return err
	}
	page := platform.PageSize
	if from := off / page * page; r.file && off+n > from {
		return advice(r.b[from : off+n])
	}
	return nil
}

// Present reports whether [off, off+n) of a mapped file is in the page cache. It also returns true if the
// kernel does not tell, as for files of other users.
func (r *Region) Present(off, n int) bool {
	if r.check(off, n) != nil || n == 0 || !r.file || r.static {
		return true
	}
	page := platform.PageSize
	from := off / page * page
	return platform.Present(r.b[from : off+n])
}

// Huge asks for huge pages in [off, off+n) of an allocated region, where whole ones fit.
func (r *Region) Huge(off, n int) error {
	if r.check(off, n) != nil || off%platform.PageSize != 0 {
		return fmt.Errorf("mem: [%d,+%d) is outside a region of %d bytes, or not of whole pages", off, n, len(r.b))
	}
	platform.HugePages(r.b[off:off+n], true)
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
	populate := platform.PopulateMemory
	if r.file {
		populate = platform.PopulateFile
	}
	var wg sync.WaitGroup
	errs := make([]error, (len(r.b)+share-1)/share)
	for i := range errs {
		part := r.b[i*share : min((i+1)*share, len(r.b))]
		wg.Go(func() { errs[i] = populate(part) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
