package mem

import (
	"fmt"
	"unsafe"
)

// Float32s returns b as floats. Like the other views it shares b's memory. It panics if b is misaligned or
// has a remainder: both are bugs in the caller, not in a file.
func Float32s(b []byte) []float32 { return view[float32](b) }

// Float64s returns b as doubles.
func Float64s(b []byte) []float64 { return view[float64](b) }

// Int32s returns b as 32-bit integers.
func Int32s(b []byte) []int32 { return view[int32](b) }

// Uint32s returns b as unsigned 32-bit integers.
func Uint32s(b []byte) []uint32 { return view[uint32](b) }

func view[T float32 | float64 | int32 | uint32](b []byte) []T {
	var t T
	size := uint64(unsafe.Sizeof(t))
	if uint64(len(b))%size != 0 || addr(b)%size != 0 {
		panic(fmt.Sprintf("mem: %d bytes at %#x are not aligned words of %d bytes", len(b), addr(b), size))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), uint64(len(b))/size)
}
