package kernel

// #include "quern.h"
import "C"

// WKV is the recurrence of RWKV 7 over the positions of a sequence. Each of NHead heads has a state S
// of HeadDim rows and columns, and of each token
//
//	z = k Direction / |k Direction|,  a = sigmoid(a),  k = k (1 + (a - 1) Rate)
//	S = diag(exp(-sigmoid(w) / sqrt(e))) S - (z a) (S'z)' + k v'
//	Dst = S'r, and behind that of all heads v * the sum of r k Bonus
//
// with r, k, v, w and a of the head.
type WKV struct {
	Dst                    Buf
	Src                    Buf    // r, k and v of the heads
	Col                    [3]int // where in Src each of them begins; multiples of Panel
	Gates                  Buf    // w of the heads, then a
	NHead, HeadDim         int    // HeadDim is a multiple of Panel
	Direction, Rate, Bonus []float32
	Group                  int // of the batch, where the state is
	Offset                 int // of this layer inside the state, in bytes
}

// WKVBytes returns the bytes of the state of a WKV.
func WKVBytes(nHead, headDim int) int { return AlignUp(nHead * headDim * headDim * 4) }

// shortest is what a z that is shorter is divided by.
const shortest = 1e-12

func (o WKV) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_WKV
	if o.NHead < 1 || o.HeadDim < 1 || o.HeadDim%Panel != 0 {
		return shapeErr("RWKV of %d heads of %d", o.NHead, o.HeadDim)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + WKVBytes(o.NHead, o.HeadDim), perSequence: true})
	width := o.NHead * o.HeadDim
	c.n_head, c.head_dim, c.v_dim = C.int32_t(o.NHead), C.int32_t(o.HeadDim), C.int32_t(o.HeadDim)
	c.group, c.kv_offset, c.eps = C.int32_t(o.Group), C.int64_t(o.Offset), shortest
	for i, col := range o.Col {
		c.col[i] = C.int32_t(col)
		if err := b.floats(&c.src, o.Src, TokRows, col+width); err != nil {
			return err
		}
	}
	for _, v := range []struct {
		c **C.float
		v []float32
	}{{&c.vec, o.Direction}, {&c.vec2, o.Rate}, {&c.mul[0], o.Bonus}} {
		if err := vector(b, v.c, v.v, width); err != nil {
			return err
		}
	}
	if err := b.floats(&c.aux, o.Gates, TokRows, 2*width); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, 2*width)
}
