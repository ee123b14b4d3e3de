package kernel

// #include "quern.h"
import "C"

// Delta is the gated delta rule over the positions of a sequence. Each of NHead value
// heads has a state S of KeyDim rows and ValueDim columns, and of each token
//
//	x = b (v - g S'k),  S = g S + k x',  Dst = Scale * S'q
//	g = exp(Rate * softplus(a + Bias)),  b = sigmoid of the other gate
//
// with q and k of the value head's key head. ByChannel, each row of the state has its own g, which may have a bound:
// with Least, g = exp(Least * sigmoid(Rate * (a + Bias))), and no g is below e^Least.
type Delta struct {
	Dst             Buf
	Src             Buf    // queries and keys of the key heads, values
	Col             [3]int // where in Src each of them begins; multiples of Panel
	NHead, NHeadKey int
	KeyDim          int
	ValueDim        int  // a multiple of Panel
	Tiled           bool // value head h has key head h mod NHeadKey; else neighbours share one
	Gates           Buf  // of each GateHeads value heads the gates b, then a
	GateHeads       int
	ByChannel       bool      // Gates: GateHeads gates b, and behind them KeyDim numbers a of each head
	Bias, Rate      []float32 // of each value head; Bias also of each channel, ByChannel
	Least           float32   // below 0; 0: there is none
	Scale           float32
	Group           int // of the batch, where the state is
	Offset          int // of this layer inside the state, in bytes
}

// DeltaBytes returns the bytes of a Delta's state.
func DeltaBytes(nHead, keyDim, valueDim int) int { return AlignUp(nHead * keyDim * valueDim * 4) }

func (o Delta) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_DELTA
	if o.NHead < 1 || o.NHeadKey < 1 || o.NHead%o.NHeadKey != 0 || o.KeyDim < 1 || o.ValueDim < 1 || o.ValueDim%Panel != 0 || o.GateHeads < 1 {
		return shapeErr("delta rule of %d heads of %d over %d of %d", o.NHead, o.ValueDim, o.NHeadKey, o.KeyDim)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + DeltaBytes(o.NHead, o.KeyDim, o.ValueDim), perSequence: true})
	c.n_head, c.n_head_kv = C.int32_t(o.NHead), C.int32_t(o.NHeadKey)
	c.head_dim, c.v_dim = C.int32_t(o.KeyDim), C.int32_t(o.ValueDim)
	c.n_seg, c.scale, c.limit = C.int32_t(o.GateHeads), C.float(o.Scale), C.float(o.Least)
	if o.Tiled {
		c.k_tiled = 1
	}
	c.group, c.kv_offset = C.int32_t(o.Group), C.int64_t(o.Offset)
	for i, n := range [3]int{o.NHeadKey * o.KeyDim, o.NHeadKey * o.KeyDim, o.NHead * o.ValueDim} {
		c.col[i] = C.int32_t(o.Col[i])
		if err := b.floats(&c.src, o.Src, TokRows, o.Col[i]+n); err != nil {
			return err
		}
	}
	gates := (o.NHead-1)/o.GateHeads*2*o.GateHeads + (o.NHead-1)%o.GateHeads + o.GateHeads + 1
	biases := o.NHead
	if o.ByChannel {
		c.by_channel = 1
		biases = o.NHead * o.KeyDim
		gates = o.GateHeads + biases
	}
	if err := b.floats(&c.aux, o.Gates, TokRows, gates); err != nil {
		return err
	}
	if err := vector(b, &c.vec, o.Bias, biases); err != nil {
		return err
	}
	if err := vector(b, &c.vec2, o.Rate, o.NHead); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, o.NHead*o.ValueDim)
}
