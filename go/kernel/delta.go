package kernel

// #include "quern.h"
import "C"

// Delta is the gated delta rule over the positions of a sequence (struct qn_delta). Each of NHead value heads has a state
// of KeyDim rows and ValueDim columns.
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
	Own
}

// DeltaBytes returns the bytes of a Delta's state.
func DeltaBytes(nHead, keyDim, valueDim int) int { return AlignUp(nHead * keyDim * valueDim * 4) }

func (o Delta) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_DELTA
	c := operands[C.struct_qn_delta](op)
	if o.NHead < 1 || o.NHeadKey < 1 || o.NHead%o.NHeadKey != 0 || o.KeyDim < 1 || o.ValueDim < 1 || o.ValueDim%Panel != 0 || o.GateHeads < 1 {
		return shapeErr("delta rule of %d heads of %d over %d of %d", o.NHead, o.ValueDim, o.NHeadKey, o.KeyDim)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + DeltaBytes(o.own(o.NHead), o.KeyDim, o.ValueDim), perSequence: true})
	err := recurrence{
		dst: o.Dst, src: o.Src, col: o.Col, heads: o.NHead, keys: o.NHeadKey, rows: o.KeyDim, cols: o.ValueDim,
		parts: [3]int{o.NHeadKey * o.KeyDim, o.NHeadKey * o.KeyDim, o.NHead * o.ValueDim}, at: place(o.Group, o.Offset), own: o.Own,
	}.fill(b, &c.r)
	if err != nil {
		return err
	}
	c.gate_heads, c.k_tiled, c.by_channel = C.int32_t(o.GateHeads), flag(o.Tiled), flag(o.ByChannel)
	c.scale, c.limit = C.float(o.Scale), C.float(o.Least)
	gates := (o.NHead-1)/o.GateHeads*2*o.GateHeads + (o.NHead-1)%o.GateHeads + o.GateHeads + 1
	biases := o.NHead
	if o.ByChannel {
		biases = o.NHead * o.KeyDim
		gates = o.GateHeads + biases
	}
	if err := b.floats(&c.gates, o.Gates, TokRows, gates); err != nil {
		return err
	}
	if err := vector(b, &c.bias, o.Bias, biases); err != nil {
		return err
	}
	return vector(b, &c.rate, o.Rate, o.NHead)
}

// Own says which heads of a recurrence are computed, or columns of a convolution, and have a state; To 0: all.
type Own struct{ From, To int }

// own returns how many they are, of n.
func (o Own) own(n int) int {
	if o.To == 0 {
		return n
	}
	return o.To - o.From
}

// A recurrence is what the operations have in common whose heads have a state of rows and columns each.
type recurrence struct {
	dst, src    Buf
	col, parts  [3]int // of src: where its parts begin, and their widths
	heads, keys int
	rows, cols  int
	at          C.struct_qn_place
	own         Own
	twice       bool // results are twice as wide as those of all heads
}

func (r recurrence) fill(b *planBuilder, c *C.struct_qn_recurrence) error {
	c.state = r.at
	c.n_head, c.n_head_kv = C.int32_t(r.heads), C.int32_t(r.keys)
	c.head_dim, c.v_dim = C.int32_t(r.rows), C.int32_t(r.cols)
	if r.own.From < 0 || r.own.To > r.heads || r.own.own(r.heads) < 1 {
		return shapeErr("heads %d to %d of %d", r.own.From, r.own.To, r.heads)
	}
	c.from, c.to = C.int32_t(r.own.From), C.int32_t(r.own.To)
	for i, n := range r.parts {
		c.col[i] = C.int32_t(r.col[i])
		if err := b.floats(&c.src, r.src, TokRows, r.col[i]+n); err != nil {
			return err
		}
	}
	n := r.heads * r.cols
	if r.twice {
		n *= 2
	}
	return b.floats(&c.dst, r.dst, TokRows, n)
}
