package kernel

// #include "quern.h"
import "C"

// Scan is a selective state space over the positions of a sequence. Each of NHead heads
// has a state S of StateDim rows and HeadDim columns, and of each token
//
//	S = exp(dt Rate) S + b (dt x)',  Dst = S'c + Skip x,  dt = softplus(step + Bias)
//
// with b and c of the head's group. Step, Bias, Rate and Skip are numbers of the head, or,
// with ByChannel, of its columns, and the rate of its rows too.
type Scan struct {
	Dst           Buf
	Src           Buf    // x of the heads, b and c of the groups
	Col           [3]int // where in Src each of them begins; multiples of Panel
	Steps         Buf
	StepCol       int // where in Steps they begin; a multiple of Panel
	NHead, NGroup int
	StateDim      int
	HeadDim       int // a multiple of Panel
	ByChannel     bool
	Bias, Skip    []float32
	Rate          []float32 // by channel: [NHead][HeadDim / Panel][StateDim][Panel]
	Group         int       // of the batch, where the state is
	Offset        int       // of this layer inside the state, in bytes
}

// ScanBytes returns the bytes of the state of a Scan.
func ScanBytes(nHead, stateDim, headDim int) int { return AlignUp(nHead * stateDim * headDim * 4) }

func (o Scan) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_SCAN
	if o.NHead < 1 || o.NGroup < 1 || o.NHead%o.NGroup != 0 || o.StateDim < 1 || o.HeadDim < 1 || o.HeadDim%Panel != 0 {
		return shapeErr("scan of %d heads of %d by %d in %d groups", o.NHead, o.StateDim, o.HeadDim, o.NGroup)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + ScanBytes(o.NHead, o.StateDim, o.HeadDim), perSequence: true})
	c.n_head, c.n_head_kv = C.int32_t(o.NHead), C.int32_t(o.NGroup)
	c.head_dim, c.v_dim = C.int32_t(o.StateDim), C.int32_t(o.HeadDim)
	c.group, c.kv_offset = C.int32_t(o.Group), C.int64_t(o.Offset)
	width, numbers, rates := o.NHead*o.HeadDim, o.NHead, o.NHead
	if o.ByChannel {
		c.by_channel = 1
		numbers, rates = width, width*o.StateDim
	}
	for i, n := range [3]int{width, o.NGroup * o.StateDim, o.NGroup * o.StateDim} {
		c.col[i] = C.int32_t(o.Col[i])
		if err := b.floats(&c.src, o.Src, TokRows, o.Col[i]+n); err != nil {
			return err
		}
	}
	c.col[3] = C.int32_t(o.StepCol)
	if err := b.floats(&c.aux, o.Steps, TokRows, o.StepCol+numbers); err != nil {
		return err
	}
	if err := vector(b, &c.vec, o.Bias, numbers); err != nil {
		return err
	}
	if err := vector(b, &c.vec2, o.Rate, rates); err != nil {
		return err
	}
	if err := vector(b, &c.mul[0], o.Skip, numbers); err != nil {
		return err
	}
	return b.floats(&c.dst, o.Dst, TokRows, width)
}
