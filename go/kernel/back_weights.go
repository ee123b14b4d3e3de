package kernel

/*
#include "quern.h"
#cgo noescape qn_muon
#cgo nocallback qn_muon
*/
import "C"

import (
	"cmp"
	"unsafe"
)

// BackW is DW += Scale * the sum over rows of Src times the transpose of Act, of ActF32, both rounded to BF16
// (struct qn_back_w). DW is [Out][In], outside the Go heap.
type BackW struct {
	DW      []float32
	Src     Columns
	Act     Buf
	Rows    RowSet
	In, Out int
	Scale   float32 // 0: 1
}

func (o BackW) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_BACK_W, C.int32_t(o.Rows)
	c := operands[C.struct_qn_back_w](op)
	if o.In < 1 || o.Out < 1 {
		return shapeErr("gradients of a matrix of %d columns and %d rows", o.In, o.Out)
	}
	c.n_in, c.n_out, c.scale = C.int32_t(o.In), C.int32_t(o.Out), C.float(cmp.Or(o.Scale, 1))
	if err := vector(b, &c.d_w, o.DW, o.In*o.Out); err != nil {
		return err
	}
	if err := b.one(&c.act, ActF32, o.Act, o.Rows); err != nil {
		return err
	}
	return o.Src.fill(b, &c.src, o.Rows, o.Out)
}

// BackV is DV += Scale * the sum over rows and Segs segments of Cols columns of DY * X, of DY alone where X.Buf is NoBuf
// (struct qn_back_v). DV is outside the Go heap.
type BackV struct {
	DV         []float32
	DY, X      Columns
	Rows       RowSet
	Cols, Segs int
	Scale      float32 // 0: 1
}

func (o BackV) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_BACK_V, C.int32_t(o.Rows)
	c := operands[C.struct_qn_back_v](op)
	if o.Cols < 1 || o.Segs < 1 {
		return shapeErr("gradients of %d segments of %d columns", o.Segs, o.Cols)
	}
	c.n_col, c.n_seg, c.scale = C.int32_t(o.Cols), C.int32_t(o.Segs), C.float(cmp.Or(o.Scale, 1))
	c.x.buf = C.int32_t(none)
	if err := vector(b, &c.d_v, o.DV, o.Cols); err != nil {
		return err
	}
	if o.X.Buf != NoBuf {
		if err := o.X.fill(b, &c.x, o.Rows, o.Cols*o.Segs); err != nil {
			return err
		}
	}
	return o.DY.fill(b, &c.dy, o.Rows, o.Cols*o.Segs)
}

// BackEmbed is the reverse of an Embed by tokens, by positions, by texts, or of the first row: rows of DTable += Scale * Src, of Cols
// columns (struct qn_back_embed). DTable is outside the Go heap.
type BackEmbed struct {
	DTable []float32 // as many rows as the table
	Src    Buf
	Cols   int
	By     Index
	Scale  float32
}

func (o BackEmbed) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_BACK_EMBED
	c := operands[C.struct_qn_back_embed](op)
	if o.Cols < 1 || o.Cols > len(o.DTable) && o.DTable != nil {
		return shapeErr("gradients of a table of %d columns", o.Cols)
	}
	c.n_col, c.index, c.scale = C.int32_t(o.Cols), C.int32_t(o.By), C.float(cmp.Or(o.Scale, 1))
	if o.By == ByText && len(o.DTable) < 2*o.Cols {
		return shapeErr("gradients of %d columns of the types of a pair's texts, of %d numbers", o.Cols, len(o.DTable))
	}
	if o.By == ByPosition {
		rows := len(o.DTable) / o.Cols
		b.positions = min(cmp.Or(b.positions, rows), rows)
	}
	if err := vector(b, &c.d_table, o.DTable, o.Cols); err != nil {
		return err
	}
	return b.floats(&c.src, o.Src, TokRows, o.Cols)
}

// Muon is the constants of a step of Muon: struct qn_muon.
type Muon struct {
	Scale float32 // of the gradient
	Beta  float32
	Keep  float32 // what is left of the numbers
	Move  float32 // how far they move
}

// MuonWork returns the floats that a step of a matrix of this shape works in.
func MuonWork(out, in int) int { return int(C.qn_muon_work(C.int64_t(out), C.int64_t(in))) }

// Step moves a matrix x, [out][in], by the gradient d, whose momentum is m. work has MuonWork(out, in) floats. All are
// outside the Go heap.
func (s Muon) Step(pool *Pool, x, m, d, work []float32, out, in int) {
	pool.mustBeOpen()
	if n := out * in; n < 1 || len(x) != n || len(m) != n || len(d) != n || len(work) < MuonWork(out, in) {
		panic("kernel: a step of a matrix with other numbers of gradients or momentum")
	}
	c := (*C.struct_qn_muon)(calloc(1, C.sizeof_struct_qn_muon))
	defer free(unsafe.Pointer(c))
	*c = C.struct_qn_muon{
		x: (*C.float)(unsafe.SliceData(x)), m: (*C.float)(unsafe.SliceData(m)), d: (*C.float)(unsafe.SliceData(d)),
		work: (*C.float)(unsafe.SliceData(work)), n_out: C.int64_t(out), n_in: C.int64_t(in),
		scale: C.float(s.Scale), beta: C.float(s.Beta), keep: C.float(s.Keep), move: C.float(s.Move),
	}
	C.qn_muon(pool.c, c)
}
