package kernel

/*
#include <stdlib.h>

static void *qn_unbound(void)
{
	static _Alignas(64) char nothing[64];
	return nothing;
}
*/
import "C"

import "unsafe"

// calloc returns n zeroed elements of C memory. The tables in it are small; if allocation fails, the program
// ends, as when Go runs out of memory.
func calloc(n, size int) unsafe.Pointer {
	p := C.calloc(C.size_t(max(n, 1)), C.size_t(size))
	if p == nil {
		panic("kernel: out of memory")
	}
	return p
}

func free(p unsafe.Pointer) { C.free(p) }

// unbound returns an aligned address for matrices, vectors and buffers that are not allocated yet, so that a
// plan can be checked first.
func unbound() unsafe.Pointer { return C.qn_unbound() }

// int32s returns n zeroed integers in C memory.
func int32s(n int) []int32 { return unsafe.Slice((*int32)(calloc(n, 4)), n) }

// float32s returns n zeroed floats in C memory.
func float32s(n int) []float32 { return unsafe.Slice((*float32)(calloc(n, 4)), n) }
