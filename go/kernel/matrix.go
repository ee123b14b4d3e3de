package kernel

// #include "quern.h"
import "C"

import (
	"math"
	"unsafe"
)

// Layout is the memory layout of a matrix.
type Layout int32

const (
	Rows Layout = C.QN_ROWS // rows of blocks, as in GGUF
	X16  Layout = C.QN_X16  // panels of 16 rows, interleaved by Pack
)

// PanelsVersion is the version of the X16 layout, defined in csrc/format/panel.h. Packed files record it, and files of
// other versions are refused.
const PanelsVersion = 1

// A Matrix is N contiguous matrices of Out rows by In columns.
type Matrix struct {
	// Data is outside the Go heap. It is nil for a matrix that is not allocated yet: a plan with such matrices
	// can be checked and sized, but not run.
	Data    []byte
	Type    Type
	Layout  Layout
	In, Out int
	N       int // 1, or the number of experts
	// Name identifies the matrix for an Adapt; it does not affect results.
	Name string
	// Scales are N factors of the products, or nil. They are outside the Go heap.
	Scales []float32
}

// Bytes returns the length that Data must have.
func (m Matrix) Bytes() int {
	if m.Layout == X16 {
		return m.N * (Pad(m.Out) / Panel) * PanelBytes(m.Type, m.In)
	}
	return m.N * m.Out * RowBytes(m.Type, m.In)
}

// check returns an error that wraps ErrType or ErrShape for an invalid matrix.
func (m Matrix) check() error {
	if err := m.Type.Check(m.In); err != nil {
		return err
	}
	const most = math.MaxInt32 - Panel
	switch {
	case m.Layout != Rows && m.Layout != X16:
		return shapeErr("matrix of layout %d", m.Layout)
	case m.Out < 1 || m.Out > most || m.In > most || m.N < 1 || m.N > most:
		return shapeErr("%d matrices of %d x %d", m.N, m.Out, m.In)
	case m.Data != nil && len(m.Data) != m.Bytes():
		return shapeErr("%d matrices of %d x %d %v in %d bytes, want %d", m.N, m.Out, m.In, m.Type, len(m.Data), m.Bytes())
	case m.Scales != nil && len(m.Scales) != m.N:
		return shapeErr("%d scales of %d matrices", len(m.Scales), m.N)
	case m.Layout == X16 && !aligned(m.Data):
		return shapeErr("packed matrix at an address that is no multiple of %d", Align)
	}
	return nil
}

// c returns the matrix for C. It must have passed check.
func (m Matrix) c() C.struct_qn_mat {
	c := C.struct_qn_mat{
		data:   unbound(),
		_type:  C.int32_t(m.Type),
		layout: C.int32_t(m.Layout),
		n_in:   C.int32_t(m.In),
		n_out:  C.int32_t(m.Out),
		n_mat:  C.int32_t(m.N),
	}
	if m.Data != nil {
		c.data = unsafe.Pointer(unsafe.SliceData(m.Data))
	}
	if m.Scales != nil {
		c.scale = (*C.float)(unsafe.SliceData(m.Scales))
	}
	return c
}
