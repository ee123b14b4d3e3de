package kernel

// #include "quern.h"
import "C"

// LRU is a real-gated linear recurrent unit over the positions of a sequence (struct qn_lru).
type LRU struct {
	Dst, Src, Decay  Buf
	SrcCol, DecayCol int // multiples of Panel
	Cols             int
	Group            int // of the batch, where the state is
	Offset           int // of this layer inside the state, in bytes
}

// LRUBytes returns the bytes of the state of an LRU.
func LRUBytes(cols int) int { return AlignUp(cols * 4) }

func (o LRU) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_LRU
	c := operands[C.struct_qn_lru](op)
	if o.Cols < 1 {
		return shapeErr("a recurrent unit of %d columns", o.Cols)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + LRUBytes(o.Cols), perSequence: true})
	c.n_col, c.state = C.int32_t(o.Cols), place(o.Group, o.Offset)
	c.src.col, c.decay.col = C.int32_t(o.SrcCol), C.int32_t(o.DecayCol)
	if err := b.floats(&c.src.buf, o.Src, TokRows, o.SrcCol+o.Cols); err != nil {
		return err
	}
	if err := b.floats(&c.decay.buf, o.Decay, TokRows, o.DecayCol+o.Cols); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.Cols)
}
