package kernel

// #include "quern.h"
import "C"

// Decay is linear attention over the positions of a sequence, whose rows decay apart (RWKV 6). Each of NHead heads has a
// state S of HeadDim rows and columns, and of each token, with g = exp(-exp(w)),
//
//	Dst = S'r + v * the sum of r k Bonus,  S = diag(g) S + k v'       with Bonus
//	S = diag(g) S + k (1 - g) v',  Dst = Scale * S'r                  without
//
// with r and w of the head, k and v of its key head.
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
}

func (o Decay) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_DECAY
	if o.NHead < 1 || o.NHeadKey < 1 || o.NHead%o.NHeadKey != 0 || o.HeadDim < 1 || o.HeadDim%Panel != 0 {
		return shapeErr("linear attention of %d heads of %d over %d", o.NHead, o.HeadDim, o.NHeadKey)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + WKVBytes(o.NHead, o.HeadDim), perSequence: true})
	width := o.NHead * o.HeadDim
	c.n_head, c.n_head_kv = C.int32_t(o.NHead), C.int32_t(o.NHeadKey)
	c.head_dim, c.v_dim = C.int32_t(o.HeadDim), C.int32_t(o.HeadDim)
	c.group, c.kv_offset, c.scale = C.int32_t(o.Group), C.int64_t(o.Offset), C.float(o.Scale)
	for i, n := range [3]int{width, o.NHeadKey * o.HeadDim, o.NHeadKey * o.HeadDim} {
		c.col[i] = C.int32_t(o.Col[i])
		if err := b.floats(&c.src, o.Src, TokRows, o.Col[i]+n); err != nil {
			return err
		}
	}
	if !o.Late {
		if err := vector(b, &c.vec, o.Bonus, width); err != nil {
			return err
		}
	}
	if err := b.floats(&c.aux, o.Decays, TokRows, width); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, width)
}
