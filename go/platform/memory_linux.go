package platform

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Discard gives the memory of whole pages back. They read as zeros, and have memory again when they are written.
func Discard(b []byte) error {
	b, err := paged(b)
	if err != nil {
		return err
	}
	return unix.Madvise(b, unix.MADV_DONTNEED)
}

// Move moves the pages of from to the addresses of to, of the same length, whose pages are freed. What was moved reads as
// zeros at its old place. It needs Linux 5.7, and fails without changes.
func Move(to, from []byte) error {
	if (uint64(address(to))|uint64(address(from))|uint64(len(from)))%uint64(PageSize) != 0 {
		return unix.EINVAL
	}
	const flags = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED | unix.MREMAP_DONTUNMAP
	_, _, errno := unix.Syscall6(unix.SYS_MREMAP, uintptr(unsafe.Pointer(&from[0])), uintptr(len(from)), uintptr(len(from)), flags, uintptr(unsafe.Pointer(&to[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Cold says that pages of a mapped file are not needed soon, and are reclaimed first (MADV_COLD).
func Cold(b []byte) { _ = unix.Madvise(b, unix.MADV_COLD) } // before Linux 5.4 the kernel finds out by itself

// tooHuge reports whether the kernel's huge pages are larger than MaxHugePage.
var tooHuge = sync.OnceValue(func() bool {
	b, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return err == nil && n > MaxHugePage
})

// HugePages asks for huge pages in whole pages of memory, or for none.
func HugePages(b []byte, wanted bool) {
	advice := unix.MADV_NOHUGEPAGE
	if wanted && tooHuge() {
		return // with "always" the kernel gives them all the same
	}
	if wanted {
		advice = unix.MADV_HUGEPAGE
	}
	_ = unix.Madvise(b, advice) // EINVAL from a kernel without huge pages: the memory is usable all the same
}

// Present reports whether whole pages of a mapped file are in the page cache, and true where the system does not say.
func Present(b []byte) bool {
	page := os.Getpagesize() // the kernel's own
	pages := make([]byte, (len(b)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0])))
	return errno != 0 || !slices.ContainsFunc(pages, func(p byte) bool { return p&1 == 0 })
}

// PopulateFile makes pages of a mapped file present. MADV_POPULATE needs Linux 5.14; on older kernels they are only read
// ahead: touching a page that was truncated away would be fatal.
func PopulateFile(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) {
		err = unix.Madvise(b, unix.MADV_WILLNEED)
	}
	return err
}

// PopulateMemory makes pages of allocated memory present; their contents stay.
func PopulateMemory(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		touch(b)
		return nil
	}
	return err
}

// Place sets on which NUMA nodes whole pages are that are first touched from now on. A container may forbid it (EPERM).
func Place(b []byte, policy Policy, nodes []int) error {
	var mask [MaxNodes / 64]uint64
	for _, node := range nodes {
		mask[node/64] |= 1 << (node % 64)
	}
	// The kernel reads one bit less than it is told.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(policy),
		uintptr(unsafe.Pointer(&mask)), MaxNodes+1, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// BoundNodes returns the nodes that numactl --membind binds the process's memory to; nil: it does not.
func BoundNodes() []int {
	const bind = 2 // MPOL_BIND
	var mode int32
	var mask [MaxNodes / 64]uint64
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask)), MaxNodes, 0, 0, 0)
	if errno != 0 || mode&0xff != bind {
		return nil
	}
	var nodes []int
	for i := range MaxNodes {
		if mask[i/64]>>(i%64)&1 != 0 {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// Memory returns what this process has in memory.
func Memory() Resident {
	b, _ := os.ReadFile("/proc/self/status")
	return resident(string(b))
}

// resident reads the lines of /proc/self/status.
func resident(status string) (r Resident) {
	for line := range strings.Lines(status) { // such as "VmRSS:	  1234 kB"
		key, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 53)
		if err != nil {
			continue
		}
		switch n *= 1024; key {
		case "VmRSS":
			r.All = n
		case "RssAnon", "RssShmem":
			r.Anonymous += n
		case "VmHWM":
			r.Peak = n
		}
	}
	return r
}
