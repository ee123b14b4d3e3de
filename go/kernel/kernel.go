// Package kernel calls the C library of SIMD kernels. It is the only package that imports "C", and its API
// exposes nothing of C: no C type, no unsafe.Pointer.
//
// A forward pass is a list of operations over numbered buffers. NewPlan checks such a list once and lays it
// out in C memory; Plan.Run then executes it over a Batch with the threads of a Pool, in one call that does
// not allocate.
//
// # Memory
//
// Plans, buffers and batches hold addresses of weights, vectors, activations, keys and values. All of these
// must be outside the Go heap, in memory that stays mapped for as long as it is used, such as a mem.Region.
// Scratch, buffers and packed matrices start on a multiple of 64 bytes.
//
// # Errors
//
// Errors that a file can cause are returned when a plan is built. Errors that only a bug can cause are panics
// when it runs.
package kernel

/*
#cgo CFLAGS: -I${SRCDIR}/../../include
#include "quern.h"
*/
import "C"

import (
	"errors"
	"fmt"

	_ "github.com/quern-llm/quern/include" // the headers: a change in one is a change of this package
)

var (
	// ErrShape reports sizes that the kernels do not support.
	ErrShape = errors.New("kernel: unsupported shape")
	// ErrType reports a weight type that the kernels do not support.
	ErrType = errors.New("kernel: unsupported type")
	// ErrNotFinite reports a weight, or the scale of a block of weights, that is
	// NaN or infinite.
	ErrNotFinite = errors.New("a weight is NaN or infinite")
	// ErrWide reports weights with too many exponents for layout X12.
	ErrWide = errors.New("weights have too many exponents for 12 bits")
)

const (
	// Panel is the number of rows that a packed matrix interleaves. Columns of
	// buffers, biases and norms are padded to a multiple of it.
	Panel = C.QN_PANEL
	// KVBlock is the number of positions in a block of keys and values.
	KVBlock = C.QN_KV_BLOCK
	// Align is the alignment in bytes of buffers, scratch and packed matrices.
	Align = 64

	// ActBlock is the number of columns of a block of activations, which are quantized by themselves.
	ActBlock = C.QN_ACT_BLOCK

	actBlock = ActBlock
)

// Pad rounds n up to whole panels.
func Pad(n int) int { return (n + Panel - 1) / Panel * Panel }

// AlignUp rounds a number of bytes up to a multiple of Align.
func AlignUp(n int) int { return (n + Align - 1) / Align * Align }

func shapeErr(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrShape, fmt.Sprintf(format, args...))
}

// status turns the result of a C call into an error.
func status(rc C.int, what string) error {
	switch rc {
	case C.QN_OK:
		return nil
	case C.QN_ENOTFINITE:
		return ErrNotFinite
	case C.QN_EWIDE:
		return ErrWide
	case C.QN_ENOMEM:
		return fmt.Errorf("kernel: %s: no memory or threads to be had", what)
	}
	return shapeErr("%s", what)
}
