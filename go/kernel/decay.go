package kernel

// #include "quern.h"
import "C"

// Decay is linear attention over the positions of a sequence, whose rows decay apart, as in RWKV 6 (struct qn_decay). Each
// of NHead heads has a state of HeadDim rows and columns.
type Decay struct {
	Dst                      Buf
	Src                      Buf    // r of the heads, k and v of the key heads
	Col                      [3]int // where in Src each of them begins; multiples of Panel
	Decays                   Buf    // w of the heads
	NHead, NHeadKey, HeadDim int    // HeadDim is a multiple of Panel; neighbours share a key head
	Bonus                    []float32
	Late                     bool // without Bonus
	Scale                    float32
	Group                    int // of the batch, where the state is
	Offset                   int // of this layer inside the state, in bytes
	Own
}

func (o Decay) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_DECAY
	c := operands[C.struct_qn_decay](op)
	if o.NHead < 1 || o.NHeadKey < 1 || o.NHead%o.NHeadKey != 0 || o.HeadDim < 1 || o.HeadDim%Panel != 0 {
		return shapeErr("linear attention of %d heads of %d over %d", o.NHead, o.HeadDim, o.NHeadKey)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + WKVBytes(o.own(o.NHead), o.HeadDim), perSequence: true})
	width := o.NHead * o.HeadDim
	err := recurrence{
		dst: o.Dst, src: o.Src, col: o.Col, heads: o.NHead, keys: o.NHeadKey, rows: o.HeadDim, cols: o.HeadDim,
		parts: [3]int{width, o.NHeadKey * o.HeadDim, o.NHeadKey * o.HeadDim}, at: place(o.Group, o.Offset), own: o.Own,
	}.fill(b, &c.r)
	if err != nil {
		return err
	}
	c.scale = C.float(o.Scale)
	if !o.Late {
		if err := vector(b, &c.bonus, o.Bonus, width); err != nil {
			return err
		}
	}
	return b.floats(&c.decays, o.Decays, TokRows, width)
}
