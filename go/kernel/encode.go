package kernel

/*
#include "quern_encode.h"
#cgo noescape qn_encode
#cgo nocallback qn_encode
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrImportance reports a type of so few bits that it is not encoded without importance.
var ErrImportance = errors.New("needs an importance matrix")

// CanEncode reports whether there is an encoder for rows of n weights of type t.
func CanEncode(t Type, n int) bool { return C.qn_encode_ok(C.int32_t(t), C.int64_t(n)) != 0 }

// NeedsImportance reports whether Encode refuses t without importance.
func NeedsImportance(t Type) bool { return C.qn_encode_needs_importance(C.int32_t(t)) != 0 }

// Encode writes rows of n weights each, one after the other, as GGUF rows of type t. importance has how much the error
// of each of the n columns counts, 0 or more, and is nil where all count alike. The bytes are the same with any of the
// instruction sets in isa, and those of llama.cpp's encoders. It runs on the caller's thread, and several may call it.
func Encode(isa ISA, t Type, dst []byte, rows []float32, n int, importance []float32) error {
	if !CanEncode(t, n) {
		return fmt.Errorf("%w: rows of %d %v cannot be encoded", ErrType, n, t)
	}
	if len(rows) == 0 || len(rows)%n != 0 || len(dst) != len(rows)/n*RowBytes(t, n) || (importance != nil && len(importance) != n) {
		return shapeErr("encode %d weights in rows of %d as %v in %d bytes, importance of %d", len(rows), n, t, len(dst), len(importance))
	}
	if importance == nil && NeedsImportance(t) {
		return fmt.Errorf("%v %w", t, ErrImportance)
	}
	return status(C.qn_encode(C.uint32_t(isa&CPU()), C.int32_t(t), unsafe.Pointer(unsafe.SliceData(dst)),
		(*C.float)(unsafe.SliceData(rows)), C.int64_t(len(rows)/n), C.int64_t(n), (*C.float)(unsafe.SliceData(importance))), "encode")
}
