package kernel

// #include "quern.h"
import "C"

import (
	"cmp"
	"math"
)

// Conv is a short convolution over the positions of a sequence (struct qn_conv), of one column of Src, or with Gated of
// three, and with one result or several.
type Conv struct {
	Dst, Src   Buf
	Col        [3]int // of a, b and c; multiples of Panel
	Gated      bool
	Cols, Taps int
	Ahead      int       // how many of the taps are of positions after the token's own; 0: none; else there is no state
	Results    int       // 0: 1
	Weight     []float32 // [Results][Cols][Taps]
	Bias       []float32 // [Results][Cols], added to y; nil: zeros
	Epilogue   Epilogue  // Store or Apply
	Fn         Fn        // of Apply
	Group      int       // of the batch, where the state is
	Offset     int       // of this layer inside the state, in bytes
	Own
}

// ConvBytes returns the bytes of the state of a Conv.
func ConvBytes(cols, taps int) int { return AlignUp((taps - 1) * cols * 4) }

func (o Conv) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_CONV
	c := operands[C.struct_qn_conv](op)
	results := cmp.Or(o.Results, 1)
	if o.Cols < 1 || o.Taps < 2 || o.Taps > math.MaxInt16 || results < 1 || results > math.MaxInt16 {
		return shapeErr("%d convolutions of %d columns and %d taps", results, o.Cols, o.Taps)
	}
	if o.Ahead < 0 || o.Ahead >= o.Taps {
		return shapeErr("a convolution of %d taps, %d of them ahead", o.Taps, o.Ahead)
	}
	if o.Ahead == 0 {
		b.use(groupUse{group: o.Group, bytes: o.Offset + ConvBytes(o.own(o.Cols), o.Taps), perSequence: true})
	}
	if o.From < 0 || o.From%Panel != 0 || o.To > o.Cols || o.own(o.Cols) < 1 {
		return shapeErr("columns %d to %d of %d", o.From, o.To, o.Cols)
	}
	c.from, c.to = C.int32_t(o.From), C.int32_t(o.To)
	c.ahead = C.int32_t(o.Ahead)
	c.n_col, c.n_tap, c.n_result = C.int32_t(o.Cols), C.int32_t(o.Taps), C.int32_t(results)
	c.state, c.fn = place(o.Group, o.Offset), C.QN_FN_NONE
	switch o.Epilogue {
	case Store:
	case Apply:
		c.fn = C.int32_t(o.Fn)
	default:
		return shapeErr("a convolution with epilogue %d", o.Epilogue)
	}
	for i, col := range o.Col {
		if i > 0 && !o.Gated {
			c.col[i] = -1
			continue
		}
		c.col[i] = C.int32_t(col)
		if err := b.floats(&c.src, o.Src, TokRows, col+o.Cols); err != nil {
			return err
		}
	}
	if err := b.floats(&c.dst, o.Dst, TokRows, results*o.Cols); err != nil {
		return err
	}
	if err := optional(b, &c.bias, o.Bias, results*o.Cols); err != nil {
		return err
	}
	return vector(b, &c.weight, o.Weight, results*o.Cols*o.Taps)
}
