package kernel

// #include "quern.h"
import "C"

import (
	"math"
	"unsafe"
)

// A LowRank is an adapter's term of the products of a matrix: Scale * B (A x). Both are packed matrices of
// floats, as many as the matrix has. The zero value adds nothing. With Gain, whose numbers are outside the Go heap, so much of
// each row's own product is added too.
type LowRank struct {
	A, B  Matrix
	Scale float32
	Gain  []float32 // of whole panels; nil: none
}

// MaxRank is the largest rank of a LowRank.
const MaxRank = C.QN_RANK_MAX

// MaxAdapters is the maximum number of adapters per sequence.
const MaxAdapters = 8

// Adapt computes Cols columns of Dst from Col on as Scale times the sum of the low-rank terms of each row's
// sequence, for a Matmul to add to its products; or, with Add, adds that to Dst. With ByToken, rows of A,
// which are in Rows, are looked up by token id.
type Adapt struct {
	Dst     Buf
	Col     int // a multiple of Panel
	Cols    int
	Act     Buf // floats, of ActF32; not ByToken
	Reduced Buf // floats, of ActF32: A x
	Rows    RowSet
	Route   Buf // with PairRows
	ByToken bool
	Add     bool
	Scale   float32
	Low     []LowRank // of the adapters, by number
	Gain    int       // a column of Dst, from which on the sum of Gains is put; 0: they have none
}

func (o Adapt) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind, op.rows = C.QN_OP_ADAPT, C.int32_t(o.Rows)
	c := operands[C.struct_qn_adapt](op)
	c.n_col, c.scale, c.add, c.by_token = C.int32_t(o.Cols), C.float(o.Scale), flag(o.Add), flag(o.ByToken)
	if o.Col < 0 || o.Col%Panel != 0 || o.Cols < 1 || len(o.Low) == 0 {
		return shapeErr("%d adapters of %d columns from %d", len(o.Low), o.Cols, o.Col)
	}
	if err := b.cols(&c.dst, o.Dst, o.Rows, o.Col, o.Cols); err != nil {
		return err
	}
	if c.gain_col = C.int32_t(o.Gain); o.Gain != 0 {
		if o.Gain < 0 || o.Gain%Panel != 0 || o.Add || o.ByToken || o.Rows == PairRows {
			return shapeErr("gains of adapters in column %d", o.Gain)
		}
		if err := b.floats(&c.dst.buf, o.Dst, o.Rows, o.Gain+o.Cols); err != nil {
			return err
		}
	}
	if err := b.one(&c.reduced, ActF32, o.Reduced, o.Rows); err != nil {
		return err
	}
	if c.act = C.int32_t(none); !o.ByToken {
		if err := b.one(&c.act, ActF32, o.Act, o.Rows); err != nil {
			return err
		}
	}
	if err := b.pairs(op, o.Rows, o.Route); err != nil {
		return err
	}
	list := (*C.struct_qn_low_rank)(calloc(len(o.Low), C.sizeof_struct_qn_low_rank))
	b.owned = append(b.owned, unsafe.Pointer(list))
	c.low, c.n_low = list, C.int32_t(len(o.Low))
	for i, l := range o.Low {
		if l.A.Data == nil {
			continue
		}
		to := &unsafe.Slice(list, len(o.Low))[i]
		if f := float64(l.Scale); math.IsNaN(f) || math.IsInf(f, 0) || l.A.Scales != nil || l.B.Scales != nil {
			return shapeErr("an adapter's scale of %v", l.Scale)
		}
		to.scale = C.float(l.Scale)
		if err := b.matrix(&to.a, l.A); err != nil {
			return err
		}
		if err := b.matrix(&to.b, l.B); err != nil {
			return err
		}
		if l.Gain != nil && o.Gain == 0 {
			return shapeErr("an adapter's gains without columns")
		}
		if err := optional(b, &to.gain, l.Gain, Pad(o.Cols)); err != nil {
			return err
		}
	}
	return nil
}

// Adapt sets the adapters of the sequence added last: their numbers, as in Adapt.Low, and their scales. It
// panics on more than MaxAdapters.
func (b *Batch) Adapt(numbers []int32, scales []float32) {
	if len(numbers) > MaxAdapters || len(scales) != len(numbers) || b.c.n_seq < 1 {
		panic("kernel: too many adapters, or adapters of no sequence")
	}
	if len(numbers) > b.adapters {
		b.widen(len(numbers))
	}
	row := (int(b.c.n_seq) - 1) * b.adapters
	copy(b.adapter[row:], numbers)
	copy(b.adapterScale[row:], scales)
}

// Adapted reports whether a sequence of the batch has adapters.
func (b *Batch) Adapted() bool { return b.adapters > 0 }

// widen makes room for n adapters per sequence.
func (b *Batch) widen(n int) {
	for row := int(b.c.n_seq) - 1; row >= 0; row-- {
		for k := n - 1; k >= 0; k-- {
			number, scale := int32(none), float32(0)
			if k < b.adapters {
				number, scale = b.adapter[row*b.adapters+k], b.adapterScale[row*b.adapters+k]
			}
			b.adapter[row*n+k], b.adapterScale[row*n+k] = number, scale
		}
	}
	b.adapters, b.c.n_adapter = n, C.int32_t(n)
}

// noAdapters initializes a sequence without adapters.
func (b *Batch) noAdapters(row int) {
	for k := range b.adapters {
		b.adapter[row*b.adapters+k] = int32(none)
	}
}
