package platform

import (
	"os"
	"sync/atomic"
	"unsafe"
)

// A Policy says on which NUMA nodes pages are that are first touched.
type Policy int

const (
	Preferred   Policy = 1 // on the one, or on another if it is full
	Interleaved Policy = 3 // on each in turns
)

// MaxNodes bounds the numbers of NUMA nodes.
const MaxNodes = 1 << 10

// Resident is what a process has in memory, in bytes; 0 is unknown.
type Resident struct {
	All       uint64 // pages of files included
	Anonymous uint64 // what only swapping could free
	Peak      uint64 // of All, so far
}

// MaxHugePage is the size of huge pages up to which they are asked for: beside pages of 64 KiB the kernel's have 512 MiB, and
// memory of which little is used would take as much.
const MaxHugePage = 32 << 20

// PageSize is the size of the pages by which memory is given, protected and given back: of Arm's systems 4, 16 or 64 KiB. Tests
// set a larger one, since whatever is right for that is right for the system's.
var PageSize = os.Getpagesize()

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// touch writes to each page without changing it, even while others write.
func touch(b []byte) {
	for i := 0; i+4 <= len(b); i += PageSize {
		atomic.AddUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}

// probe reads the first block of a file past the page cache, which some file systems refuse only then.
func probe(f *os.File, align int) error {
	b, err := Allocate(uint64(align), uint64(align))
	if err != nil {
		return err
	}
	defer Free(b)
	_, err = ReadAt(f.Fd(), b, 0)
	return err
}
