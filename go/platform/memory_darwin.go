package platform

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Discard gives the memory of whole pages back. They read as zeros, and have memory again when they are written.
// macOS keeps contents at MADV_DONTNEED, so the pages are mapped anew in place.
func Discard(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	return err
}

// Move moves pages: macOS does not.
func Move(to, from []byte) error { return unsupported("pages that move between addresses") }

// Cold says that pages of a mapped file are not needed soon.
func Cold(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }

// HugePages asks for huge pages: macOS decides by itself.
func HugePages([]byte, bool) {}

// Present reports whether whole pages of a mapped file are in the page cache, and true where the system does not say.
func Present([]byte) bool { return true }

// PopulateFile makes pages of a mapped file present: macOS only reads them ahead.
func PopulateFile(b []byte) error { return unix.Madvise(b, unix.MADV_WILLNEED) }

// PopulateMemory makes pages of allocated memory present; their contents stay.
func PopulateMemory(b []byte) error {
	touch(b)
	return nil
}

// Place sets NUMA nodes: a Mac has one.
func Place([]byte, Policy, []int) error { return unsupported("NUMA nodes") }

// BoundNodes returns the nodes that the process's memory is bound to: never any.
func BoundNodes() []int { return nil }

// Memory returns what this process has in memory.
func Memory() (r Resident) {
	var u macUsage
	if _, _, errno := syscall_syscall(proc_pid_rusage_trampoline_addr, uintptr(os.Getpid()), 0, uintptr(unsafe.Pointer(&u))); errno == 0 {
		r.All, r.Anonymous = u.Resident, u.Footprint
	}
	var peak unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &peak) == nil {
		r.Peak = uint64(peak.Maxrss)
	}
	return r
}
