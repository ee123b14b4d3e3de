//go:build unix

package platform

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Allocate returns n zeroed bytes that begin at a multiple of align, which is one of the page's size. Physical memory is
// allocated on first touch. Free frees them.
func Allocate(n, align uint64) ([]byte, error) { return anonymous(n, align, 0) }

// Reserve returns n bytes of address space as Allocate does, which may be more than the machine has of memory. Commit makes
// a part usable, Decommit unusable.
func Reserve(n, align uint64) ([]byte, error) { return anonymous(n, align, unix.MAP_NORESERVE) }

func anonymous(n, align uint64, flags int) ([]byte, error) {
	page := uint64(PageSize)
	// Map enough to hold n at any offset, then give back both ends.
	whole, err := mmap(-1, roundUp(n, page)+align, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|flags)
	if err != nil {
		return nil, err
	}
	head := -uint64(address(whole)) % align
	b := whole[head:][:n:n]
	_ = munmap(whole[:head])
	_ = munmap(whole[head+roundUp(n, page):])
	return b, nil
}

// Commit makes whole pages of what Reserve returned usable; they are zeros. An error is want of memory. Pages that are
// usable stay as they are.
func Commit([]byte) error { return nil } // they are on first write

// Decommit gives whole pages of what Reserve returned back. Until Commit they may not be touched.
func Decommit(b []byte) error { return Discard(b) }

// Seal makes whole pages of a reservation, which have been decommitted, inaccessible: what touches them ends the program.
func Seal(b []byte) error { return protect(b, unix.PROT_NONE) }

// Unseal makes pages accessible again, which have been committed.
func Unseal(b []byte) error { return protect(b, unix.PROT_READ|unix.PROT_WRITE) }

func protect(b []byte, how int) error {
	b, err := paged(b)
	if err != nil {
		return err
	}
	return unix.Mprotect(b, how)
}

// paged returns allocated memory to the end of its last page, as the kernel takes it, and its error where b does not begin on
// a page: both follow from PageSize, which may be larger than the kernel's.
func paged(b []byte) ([]byte, error) {
	if uint64(address(b))%uint64(PageSize) != 0 {
		return nil, unix.EINVAL
	}
	return unsafe.Slice(unsafe.SliceData(b), roundUp(uint64(len(b)), uint64(PageSize))), nil
}

// Free frees what Allocate or Reserve returned.
func Free(b []byte) error { return munmap(b) }

// MapFile maps the first n bytes of a file, to be read alone. Unmap ends it.
func MapFile(f *os.File, n uint64) ([]byte, error) {
	return mmap(int(f.Fd()), n, unix.PROT_READ, unix.MAP_SHARED)
}

// Unmap ends a mapping of MapFile.
func Unmap(b []byte) error { return munmap(b) }

// mmap and munmap go by address and length, unlike unix.Mmap, which unmaps only what it mapped: anonymous unmaps parts.
func mmap(fd int, n uint64, prot, flags int) ([]byte, error) {
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(n), prot, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

func munmap(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}

// WillNeed has whole pages of a mapped file read in the background.
func WillNeed(b []byte) error { return unix.Madvise(b, unix.MADV_WILLNEED) }

// RandomAccess says that pages of a mapped file are read in no order, so that none are read ahead.
func RandomAccess(b []byte) error { return unix.Madvise(b, unix.MADV_RANDOM) }

// Drop takes whole pages of a mapped file from this process; they are read again when they are touched.
func Drop(b []byte) error { return unix.Madvise(b, unix.MADV_DONTNEED) }
