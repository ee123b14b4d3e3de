package kernel

/*
#include "quern.h"
#cgo noescape qn_pack
#cgo nocallback qn_pack
#cgo noescape qn_rows_apart
#cgo nocallback qn_rows_apart
#cgo noescape qn_dequantize
#cgo nocallback qn_dequantize
*/
import "C"

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// Type is a weight type. The numbers are GGUF's; those above 130 are ik_llama.cpp's.
type Type int32

// The types that the kernels take.
const (
	F32    Type = C.QN_F32
	F16    Type = C.QN_F16
	BF16   Type = C.QN_BF16
	Q4_0   Type = C.QN_Q4_0
	Q4_1   Type = C.QN_Q4_1
	Q5_0   Type = C.QN_Q5_0
	Q5_1   Type = C.QN_Q5_1
	Q8_0   Type = C.QN_Q8_0
	Q2_K   Type = C.QN_Q2_K
	Q3_K   Type = C.QN_Q3_K
	Q4_K   Type = C.QN_Q4_K
	Q5_K   Type = C.QN_Q5_K
	Q6_K   Type = C.QN_Q6_K
	IQ4_NL Type = C.QN_IQ4_NL
	IQ4_XS Type = C.QN_IQ4_XS

	MXFP4   Type = C.QN_MXFP4
	NVFP4   Type = C.QN_NVFP4
	Q1_0    Type = C.QN_Q1_0
	Q2_0    Type = C.QN_Q2_0
	IQ1_S   Type = C.QN_IQ1_S
	IQ1_M   Type = C.QN_IQ1_M
	IQ2_XXS Type = C.QN_IQ2_XXS
	IQ2_XS  Type = C.QN_IQ2_XS
	IQ2_S   Type = C.QN_IQ2_S
	IQ3_XXS Type = C.QN_IQ3_XXS
	IQ3_S   Type = C.QN_IQ3_S
	TQ1_0   Type = C.QN_TQ1_0
	TQ2_0   Type = C.QN_TQ2_0
	IQ2_K   Type = C.QN_IQ2_K
	IQ3_K   Type = C.QN_IQ3_K
	IQ4_K   Type = C.QN_IQ4_K
	IQ5_K   Type = C.QN_IQ5_K
	IQ6_K   Type = C.QN_IQ6_K
	IQ2_KS  Type = C.QN_IQ2_KS
	IQ2_KL  Type = C.QN_IQ2_KL
	IQ3_KS  Type = C.QN_IQ3_KS
	IQ4_KS  Type = C.QN_IQ4_KS
	IQ4_KSS Type = C.QN_IQ4_KSS
	IQ5_KS  Type = C.QN_IQ5_KS
	IQ1_KT  Type = C.QN_IQ1_KT
	IQ2_KT  Type = C.QN_IQ2_KT
	IQ3_KT  Type = C.QN_IQ3_KT
	IQ4_KT  Type = C.QN_IQ4_KT
)

// types is C's list, in the order in which an error names them.
var types = func() (all []Type) {
	for i := C.int32_t(0); ; i++ {
		t := C.qn_type_at(i)
		if t < 0 {
			return all
		}
		all = append(all, Type(t))
	}
}()

// Types returns all types that the kernels support.
func Types() []Type { return slices.Clone(types) }

// String returns GGUF's name of the type.
func (t Type) String() string {
	if name := C.qn_type_name(C.int32_t(t)); name != nil {
		return C.GoString(name)
	}
	return fmt.Sprintf("type %d", int32(t))
}

// Act returns the kind of activations that products with this type take.
func (t Type) Act() BufKind { return ActF32 + BufKind(C.qn_type_act(C.int32_t(t))) }

// Check returns an error that wraps ErrType or ErrShape if the kernels do not support rows of n elements of
// this type.
func (t Type) Check(n int) error {
	switch {
	case !slices.Contains(types, t):
		return fmt.Errorf("%w: %v, supported are %s", ErrType, t, typeList())
	case n < 1 || n > math.MaxInt32 || C.qn_type_ok(C.int32_t(t), C.int64_t(n)) == 0:
		return shapeErr("rows of %d elements of %v", n, t)
	}
	return nil
}

// RowBytes returns the bytes of one GGUF row of n elements.
func RowBytes(t Type, n int) int { return int(C.qn_row_bytes(C.int32_t(t), C.int64_t(n))) }

// PanelBytes returns the bytes of one packed panel of 16 rows of n elements.
func PanelBytes(t Type, n int) int { return int(C.qn_panel_bytes(C.int32_t(t), C.int64_t(n))) }

// Pack interleaves nRows rows (1 to 16) of n elements into a panel; missing rows become zeros. It returns
// ErrNotFinite if a weight is not finite.
func Pack(t Type, panel, rows []byte, nRows, n int) error {
	if err := t.Check(n); err != nil {
		return err
	}
	if nRows < 1 || nRows > Panel || len(rows) != nRows*RowBytes(t, n) || len(panel) != PanelBytes(t, n) || !aligned(panel) {
		return shapeErr("pack %d rows of %d %v in %d bytes into %d", nRows, n, t, len(rows), len(panel))
	}
	return status(C.qn_pack(C.int32_t(t), unsafe.Pointer(unsafe.SliceData(panel)), unsafe.Pointer(unsafe.SliceData(rows)),
		C.int32_t(nRows), C.int64_t(n)), "pack")
}

// RowsTogether returns how many rows of a type ik_llama.cpp interleaves in a file; 1 if the type has no such
// form.
func RowsTogether(t Type) int { return int(C.qn_rows_together(C.int32_t(t))) }

// RowsApart de-interleaves rows of n elements of a file into GGUF rows of the same size.
func RowsApart(t Type, rows, together []byte, n int) error {
	if err := t.Check(n); err != nil {
		return err
	}
	if group := RowsTogether(t); group == 1 || len(rows) == 0 || len(rows) != len(together) || len(rows)%(group*RowBytes(t, n)) != 0 {
		return shapeErr("interleaved rows of %d %v in %d bytes into %d", n, t, len(together), len(rows))
	}
	return status(C.qn_rows_apart(C.int32_t(t), unsafe.Pointer(unsafe.SliceData(rows)), unsafe.Pointer(unsafe.SliceData(together)),
		C.int64_t(len(rows)/RowBytes(t, n)), C.int64_t(n)), "take rows apart")
}

// Dequantize converts one GGUF row of len(y) elements to floats.
func Dequantize(t Type, y []float32, row []byte) error {
	if err := t.Check(len(y)); err != nil {
		return err
	}
	if len(row) != RowBytes(t, len(y)) {
		return shapeErr("a row of %d %v in %d bytes", len(y), t, len(row))
	}
	C.qn_dequantize(C.int32_t(t), (*C.float)(unsafe.SliceData(y)), unsafe.Pointer(unsafe.SliceData(row)), C.int64_t(len(y)))
	return nil
}

func aligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Align == 0 }

func typeList() string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, " ")
}
