package kernel

/*
#include "quern_encode.h"
#cgo noescape qn_encode
#cgo nocallback qn_encode
#cgo noescape qn_encode_search
#cgo nocallback qn_encode_search
#cgo noescape qn_encode_corrected
#cgo nocallback qn_encode_corrected
#cgo noescape qn_factor
#cgo nocallback qn_factor
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrImportance reports a type of so few bits that its encoder requires an importance matrix.
var ErrImportance = errors.New("needs an importance matrix")

// ErrIndefinite reports sums of products of columns that are NaN, infinite or not positive definite.
var ErrIndefinite = errors.New("products of columns are NaN, infinite or not positive definite")

// CanEncode reports whether there is an encoder for rows of n weights of type t.
func CanEncode(t Type, n int) bool { return C.qn_encode_ok(C.int32_t(t), C.int64_t(n)) != 0 }

// NeedsImportance reports whether Encode refuses t without importance.
func NeedsImportance(t Type) bool { return C.qn_encode_needs_importance(C.int32_t(t)) != 0 }

// Encode writes contiguous rows of n weights each as GGUF rows of type t. importance has a weight, 0 or more,
// for the error of each of the n columns; nil weighs all alike. The bytes are the same with any of the
// instruction sets in isa, and, but for the trellis types, equal those of llama.cpp's encoders. It runs on the caller's thread and is
// safe for concurrent use.
func Encode(isa ISA, t Type, dst []byte, rows []float32, n int, importance []float32) error {
	if err := checkEncode(t, dst, rows, n, importance); err != nil {
		return err
	}
	return status(C.qn_encode(C.uint32_t(isa&CPU()), C.int32_t(t), unsafe.Pointer(unsafe.SliceData(dst)),
		(*C.float)(unsafe.SliceData(rows)), C.int64_t(len(rows)/n), C.int64_t(n), (*C.float)(unsafe.SliceData(importance))), "encode")
}

func checkEncode(t Type, dst []byte, rows []float32, n int, importance []float32) error {
	if !CanEncode(t, n) {
		return fmt.Errorf("%w: rows of %d %v cannot be encoded", ErrType, n, t)
	}
	if len(rows) == 0 || len(rows)%n != 0 || len(dst) != len(rows)/n*RowBytes(t, n) || (importance != nil && len(importance) != n) {
		return shapeErr("encode %d weights in rows of %d as %v in %d bytes, importance of %d", len(rows), n, t, len(dst), len(importance))
	}
	if importance == nil && NeedsImportance(t) {
		return fmt.Errorf("%v %w", t, ErrImportance)
	}
	return nil
}

// Searched reports whether EncodeSearch improves on Encode for t.
func Searched(t Type) bool { return C.qn_encode_searched(C.int32_t(t)) != 0 }

// Correctable reports whether EncodeCorrected supports t: of the types that are Searched, all but the trellis types.
func Correctable(t Type) bool { return C.qn_encode_correctable(C.int32_t(t)) != 0 }

// EncodeSearch is Encode with scales, minimums and codes optimized together. No block has a larger weighted
// error than with Encode: the sum of squared errors, each times its importance and, for uniformly spaced
// codes, times the root of the sum of the weight's square and the block's mean square. Types that are not
// Searched have Encode's bytes. scratch has the size of dst.
func EncodeSearch(isa ISA, t Type, dst []byte, rows []float32, n int, importance []float32, scratch []byte) error {
	if err := checkEncode(t, dst, rows, n, importance); err != nil {
		return err
	}
	if len(scratch) != len(dst) {
		return shapeErr("a scratch of %d bytes for %d", len(scratch), len(dst))
	}
	return status(C.qn_encode_search(C.uint32_t(isa&CPU()), C.int32_t(t), unsafe.Pointer(unsafe.SliceData(dst)),
		(*C.float)(unsafe.SliceData(rows)), C.int64_t(len(rows)/n), C.int64_t(n), (*C.float)(unsafe.SliceData(importance)),
		unsafe.Pointer(unsafe.SliceData(scratch))), "search")
}

// Factor replaces h, the products of all pairs of n columns with the upper triangle filled, by the factor
// that EncodeCorrected takes. damp times the mean of the diagonal is added to the diagonal. If h is not
// positive definite the error is ErrIndefinite.
func Factor(isa ISA, h []float32, n int, damp float64, work []float64) error {
	if n < 1 || len(h) != n*n || len(work) != n*n {
		return shapeErr("a factor of %d columns of %d products in %d numbers", n, len(h), len(work))
	}
	rc := C.qn_factor(C.uint32_t(isa&CPU()), (*C.float)(unsafe.SliceData(h)), C.int64_t(n), C.double(damp), (*C.double)(unsafe.SliceData(work)))
	if rc == C.QN_ENOTFINITE {
		return ErrIndefinite
	}
	return status(rc, "factor")
}

// CorrectedScratch returns the scratch memory of EncodeCorrected: s, or a larger slice.
func CorrectedScratch(s []float32, n, span int) []float32 {
	if n = correctedFloats(n, span); len(s) >= n {
		return s
	}
	const line = Align / 4
	s = make([]float32, n+line)
	skip := 0
	for uintptr(unsafe.Pointer(&s[skip]))%Align != 0 {
		skip++
	}
	return s[skip:][:n]
}

// correctedFloats is QN_CORRECTED_SCRATCH.
func correctedFloats(n, span int) int { return 2*Panel*min(n, span) + 257*256 }

// EncodeCorrected is Encode for a Correctable type with error compensation: each error is compensated by the
// later columns of the row within its span. factor has the contiguous factors of the spans, SpanFloats in
// all; a span is a multiple of the type's block, and has all n columns or a multiple of 256. scratch is
// CorrectedScratch.
func EncodeCorrected(isa ISA, t Type, dst []byte, rows []float32, n int, factor []float32, span int, scratch []float32) error {
	if err := checkEncode(t, dst, rows, n, make([]float32, n)); err != nil {
		return err
	}
	if span < 1 || len(factor) != SpanFloats(n, min(span, n)) || len(scratch) < correctedFloats(n, span) {
		return shapeErr("factors of %d floats in spans of %d, for rows of %d", len(factor), span, n)
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(scratch)))%Align != 0 {
		return shapeErr("a scratch that is not aligned")
	}
	return status(C.qn_encode_corrected(C.uint32_t(isa&CPU()), C.int32_t(t), unsafe.Pointer(unsafe.SliceData(dst)),
		(*C.float)(unsafe.SliceData(rows)), C.int64_t(len(rows)/n), C.int64_t(n), (*C.float)(unsafe.SliceData(factor)),
		C.int64_t(min(span, n)), (*C.float)(unsafe.SliceData(scratch))), "encode corrected")
}
