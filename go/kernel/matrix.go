package kernel

// #include "quern.h"
import "C"

import (
	"iter"
	"math"
	"unsafe"
)

// Layout is the memory layout of a matrix.
type Layout int32

const (
	Rows Layout = C.QN_ROWS // rows of blocks, as in GGUF
	X16  Layout = C.QN_X16  // panels of 16 rows, interleaved by Pack
	X12  Layout = C.QN_X12  // the same of BF16 in 12 bits, without loss; not of every matrix: see ErrWide
)

// PanelsVersion is the version of the layouts of panels, defined in csrc/format/panel.h and twelve.h. Packed files record it, and files of
// other versions are refused.
const PanelsVersion = 4

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
	// Places is the number of parts that panels lie in, each on the NUMA node of a Pool's place (struct qn_mat); 0 is
	// 1. The parts begin Stride bytes apart, and Data is from the first to the end of the last.
	Places, Stride int
}

// Bytes returns the size of the rows or panels: without Places, the length that Data must have.
func (m Matrix) Bytes() int {
	if m.Layout != Rows {
		return m.N * m.panels() * m.PanelBytes()
	}
	return m.N * m.Out * RowBytes(m.Type, m.In)
}

// PanelBytes returns the size of a panel of the matrix; of Rows, of one that they are packed to.
func (m Matrix) PanelBytes() int {
	if m.Layout == X12 {
		return int(C.qn_twelve_bytes(C.int64_t(m.In)))
	}
	return PanelBytes(m.Type, m.In)
}

// Twelve reports whether the shape and type of the matrix are those of layout X12.
func (m Matrix) Twelve() bool { return m.Type == BF16 && C.qn_twelve_bytes(C.int64_t(m.In)) > 0 }

// panels returns how many panels each of the N matrices has.
func (m Matrix) panels() int { return Pad(m.Out) / Panel }

// PartBytes returns the size of each part of a matrix in so many places.
func (m Matrix) PartBytes(places int) int {
	return m.N * ((m.panels() + places - 1) / places) * m.PanelBytes()
}

// Span returns the length that Data must have.
func (m Matrix) Span() int {
	if m.Places < 2 {
		return m.Bytes()
	}
	return (m.Places-1)*m.Stride + m.PartBytes(m.Places)
}

// Pieces returns where bytes [at, at+n) of the panels, which are numbered as if they lay one after the other, lie.
func (m Matrix) Pieces(at, n int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if m.Places < 2 {
			yield(m.Data[at : at+n])
			return
		}
		size, panels := m.PanelBytes(), m.panels()
		room := (panels + m.Places - 1) / m.Places
		for n > 0 {
			e, p := at/size/panels, at/size%panels
			k := ((p+1)*m.Places - 1) / panels // the last place that begins at p or before
			first, end := panels*k/m.Places, panels*(k+1)/m.Places
			from := k*m.Stride + (e*room+p-first)*size + at%size
			piece := m.Data[from:][:min(n, (end-p)*size-at%size)]
			if !yield(piece) {
				return
			}
			at, n = at+len(piece), n-len(piece)
		}
	}
}

// check returns an error that wraps ErrType or ErrShape for an invalid matrix.
func (m Matrix) check() error {
	if err := m.Type.Check(m.In); err != nil {
		return err
	}
	const most = math.MaxInt32 - Panel
	switch {
	case m.Layout != Rows && m.Layout != X16 && (m.Layout != X12 || !m.Twelve()):
		return shapeErr("matrix of layout %d", m.Layout)
	case m.Out < 1 || m.Out > most || m.In > most || m.N < 1 || m.N > most:
		return shapeErr("%d matrices of %d x %d", m.N, m.Out, m.In)
	case m.Places < 0 || m.Places > MaxPlaces || m.Places > 1 && (m.Layout == Rows || m.Stride < m.PartBytes(m.Places) || m.Stride%Align != 0):
		return shapeErr("matrix of layout %d in %d places, %d bytes apart", m.Layout, m.Places, m.Stride)
	case m.Data != nil && len(m.Data) != m.Span():
		return shapeErr("%d matrices of %d x %d %v in %d bytes, want %d", m.N, m.Out, m.In, m.Type, len(m.Data), m.Span())
	case m.Scales != nil && len(m.Scales) != m.N:
		return shapeErr("%d scales of %d matrices", len(m.Scales), m.N)
	case m.Layout != Rows && !aligned(m.Data):
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
	if m.Places > 1 {
		c.places, c.place_stride = C.int32_t(m.Places), C.int64_t(m.Stride)
	}
	if m.Data != nil {
		c.data = unsafe.Pointer(unsafe.SliceData(m.Data))
	}
	if m.Scales != nil {
		c.scale = (*C.float)(unsafe.SliceData(m.Scales))
	}
	return c
}
