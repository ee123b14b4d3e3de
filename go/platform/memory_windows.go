package platform

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32                  = windows.NewLazySystemDLL("kernel32.dll")
	procPrefetchVirtualMemory = kernel32.NewProc("PrefetchVirtualMemory")
	procProcessMemoryInfo     = kernel32.NewProc("K32GetProcessMemoryInfo")
)

// Allocate returns n zeroed bytes that begin at a multiple of align, which is one of the page's size. Windows promises their
// memory at once, which fails beyond memory and page file together, and has it on first touch. Free frees them.
func Allocate(n, align uint64) ([]byte, error) {
	b, err := Reserve(n, align)
	if err != nil {
		return nil, err
	}
	if err := Commit(b); err != nil {
		_ = Free(b)
		return nil, err
	}
	return b, nil
}

// Reserve returns n bytes of address space as Allocate does, which may be more than the machine has of memory. Commit makes
// a part usable, Decommit unusable.
func Reserve(n, align uint64) ([]byte, error) {
	at, err := windows.VirtualAlloc(0, uintptr(roundUp(n, pageSize)+align), windows.MEM_RESERVE, windows.PAGE_NOACCESS)
	if err != nil {
		return nil, err
	}
	return bytesAt(uintptr(roundUp(uint64(at), align)), n), nil
}

const pageSize = 4096 // of all processors that Go knows on Windows

// bytesAt returns the bytes at an address outside of Go's heap.
func bytesAt(at uintptr, n uint64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n) // as a load: an address of the system's own is no arithmetic
}

// Commit makes whole pages of what Reserve returned usable; they are zeros. An error is want of memory. Pages that are
// usable stay as they are.
func Commit(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := windows.VirtualAlloc(address(b), uintptr(len(b)), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}

// Decommit gives whole pages of what Reserve returned back. Until Commit they may not be touched.
func Decommit(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return windows.VirtualFree(address(b), uintptr(len(b)), windows.MEM_DECOMMIT)
}

// Seal makes whole pages of a reservation, which have been decommitted, inaccessible: what touches them ends the program.
func Seal([]byte) error { return nil } // they are

// Unseal makes pages accessible again, which have been committed.
func Unseal([]byte) error { return nil } // they are

// Free frees what Allocate or Reserve returned.
func Free(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	var info windows.MemoryBasicInformation
	if err := windows.VirtualQuery(address(b), &info, unsafe.Sizeof(info)); err != nil {
		return err
	}
	return windows.VirtualFree(info.AllocationBase, 0, windows.MEM_RELEASE)
}

// Discard gives the memory of whole pages back. They read as zeros, and have memory again when they are written. Windows keeps
// its promise of them: what is decommitted may not be had again, which would leave pages that end the program. So they are
// made zeros, in parts that caches hold, and Windows is told that nobody wants what they hold: it drops them, and has zeros for
// whoever reads them.
func Discard(b []byte) error {
	const part = 1 << 20
	for len(b) > 0 {
		p := b[:min(part, len(b))]
		clear(p)
		if _, err := windows.VirtualAlloc(address(p), uintptr(len(p)), windows.MEM_RESET, windows.PAGE_READWRITE); err != nil {
			return err
		}
		_ = windows.VirtualUnlock(address(p), uintptr(len(p))) // takes what is not locked out of the working set
		b = b[len(p):]
	}
	return nil
}

// MapFile maps the first n bytes of a file, to be read alone. Unmap ends it. While it is mapped Windows lets nobody truncate
// the file.
func MapFile(f *os.File, n uint64) ([]byte, error) {
	section, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(section) // the view keeps it
	at, err := windows.MapViewOfFile(section, windows.FILE_MAP_READ, 0, 0, uintptr(n))
	if err != nil {
		return nil, err
	}
	return bytesAt(at, n), nil
}

// Unmap ends a mapping of MapFile.
func Unmap(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return windows.UnmapViewOfFile(address(b))
}

// WillNeed has whole pages of a mapped file read in the background.
func WillNeed(b []byte) error {
	if len(b) == 0 || procPrefetchVirtualMemory.Find() != nil {
		return nil
	}
	part := struct{ at, n uintptr }{address(b), uintptr(len(b))}
	ok, _, err := procPrefetchVirtualMemory.Call(uintptr(windows.CurrentProcess()), 1, uintptr(unsafe.Pointer(&part)), 0)
	if ok == 0 {
		return err
	}
	return nil
}

// RandomAccess says that pages of a mapped file are read in no order: Windows takes no such advice.
func RandomAccess([]byte) error { return nil }

// Drop takes whole pages of a mapped file from this process; they are read again when they are touched.
func Drop(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	// Unlocking pages that are not locked takes them out of the working set.
	if err := windows.VirtualUnlock(address(b), uintptr(len(b))); err != nil && err != windows.ERROR_NOT_LOCKED {
		return err
	}
	return nil
}

// Move moves pages: Windows does not.
func Move(to, from []byte) error { return unsupported("pages that move between addresses") }

// Cold says that pages of a mapped file are not needed soon.
func Cold(b []byte) { _ = Drop(b) }

// HugePages asks for huge pages: on Windows they need a privilege, and are not to be had for a part of an allocation.
func HugePages([]byte, bool) {}

// Present reports whether whole pages of a mapped file are in the page cache, and true where the system does not say.
func Present([]byte) bool { return true }

// PopulateFile makes pages of a mapped file present.
func PopulateFile(b []byte) error {
	if err := WillNeed(b); err != nil {
		return err
	}
	for i := 0; i < len(b); i += pageSize {
		read.Store(uint32(b[i]))
	}
	return nil
}

// read keeps the compiler from leaving reads out.
var read atomic.Uint32

// PopulateMemory makes pages of allocated memory present; their contents stay.
func PopulateMemory(b []byte) error {
	touch(b)
	return nil
}

// Place sets NUMA nodes: Windows takes pages from the node of the thread that first touches them.
func Place([]byte, Policy, []int) error { return unsupported("NUMA node for a part of an allocation") }

// BoundNodes returns the nodes that the process's memory is bound to: never any.
func BoundNodes() []int { return nil }

// Memory returns what this process has in memory. What is anonymous is what Windows has promised it.
func Memory() Resident {
	var c struct {
		size, faults                                            uint32
		peak, all                                               uintptr
		quotaPeakPaged, quotaPaged, quotaPeakNonPaged, nonPaged uintptr
		pagefile, peakPagefile, private                         uintptr
	}
	c.size = uint32(unsafe.Sizeof(c))
	ok, _, _ := procProcessMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&c)), uintptr(c.size))
	if ok == 0 {
		return Resident{}
	}
	return Resident{All: uint64(c.all), Anonymous: min(uint64(c.private), uint64(c.all)), Peak: uint64(c.peak)}
}
