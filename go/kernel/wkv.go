package kernel

// #include "quern.h"
import "C"

// WKV is the recurrence of RWKV 7 over the positions of a sequence (struct qn_wkv). Each of NHead heads has a state of
// HeadDim rows and columns.
type WKV struct {
	Dst                    Buf
	Src                    Buf    // r, k and v of the heads
	Col                    [3]int // where in Src each of them begins; multiples of Panel
	Gates                  Buf    // w of the heads, then a
	NHead, HeadDim         int    // HeadDim is a multiple of Panel
	Direction, Rate, Bonus []float32
	Group                  int // of the batch, where the state is
	Offset                 int // of this layer inside the state, in bytes
	Own
}

// WKVBytes returns the bytes of the state of a WKV.
func WKVBytes(nHead, headDim int) int { return AlignUp(nHead * headDim * headDim * 4) }

// shortest is what a z that is shorter is divided by.
const shortest = 1e-12

func (o WKV) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_WKV
	c := operands[C.struct_qn_wkv](op)
	if o.NHead < 1 || o.HeadDim < 1 || o.HeadDim%Panel != 0 {
		return shapeErr("RWKV of %d heads of %d", o.NHead, o.HeadDim)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + WKVBytes(o.own(o.NHead), o.HeadDim), perSequence: true})
	width := o.NHead * o.HeadDim
	err := recurrence{
		dst: o.Dst, src: o.Src, col: o.Col, heads: o.NHead, rows: o.HeadDim, cols: o.HeadDim,
		parts: [3]int{width, width, width}, at: place(o.Group, o.Offset), own: o.Own, twice: true,
	}.fill(b, &c.r)
	if err != nil {
		return err
	}
	c.eps = shortest
	for _, v := range []struct {
		c **C.float
		v []float32
	}{{&c.direction, o.Direction}, {&c.rate, o.Rate}, {&c.bonus, o.Bonus}} {
		if err := vector(b, v.c, v.v, width); err != nil {
			return err
		}
	}
	return b.floats(&c.gates, o.Gates, TokRows, 2*width)
}
