package mem

import (
	"fmt"

	"github.com/quern-llm/quern/go/platform"
)

// Hollow returns n bytes of address space like Space, none of which may be accessed before they are filled: access to
// others ends the program, where zeros in their place would be wrong results. It is for files of which only parts are
// in memory.
func Hollow(n uint64, purpose string) (*Region, error) {
	r, err := Space(n, purpose)
	if err != nil {
		return nil, err
	}
	if err := platform.Seal(r.b); err != nil {
		r.Close()
		return nil, fmt.Errorf("reserve %s of addresses for %s: %w", FormatBytes(n), purpose, err)
	}
	return r, nil
}

// Fill makes the pages around [off, off+n) of a hollow region accessible, and returns those n bytes for writing. Pages that
// were not are zeros.
func (r *Region) Fill(off, n int) ([]byte, error) {
	from, to, err := r.around(off, n)
	if err == nil && to > from {
		if err = platform.Commit(r.b[from:to]); err == nil {
			err = platform.Unseal(r.b[from:to])
		}
	}
	if err != nil {
		return nil, err
	}
	return r.b[off : off+n : off+n], nil
}

// Empty returns the whole pages within [off, off+n) of a hollow region to the kernel. They may not be accessed until
// they are filled again.
func (r *Region) Empty(off, n int) error {
	if err := r.Discard(off, n); err != nil {
		return err
	}
	from, to := r.pages(off, n)
	if from >= to {
		return nil
	}
	return platform.Seal(r.b[from:to])
}

// around returns the bounds of the pages around [off, off+n).
func (r *Region) around(off, n int) (from, to int, err error) {
	if r.closed.Load() {
		return 0, 0, ErrClosed
	}
	if err := r.check(off, n); err != nil {
		return 0, 0, err
	}
	page := platform.PageSize
	return off / page * page, min(int(roundUp(uint64(off+n), uint64(page))), len(r.b)), nil
}
