package kernel

// #include "quern.h"
import "C"

// Scan is a selective state space over the positions of a sequence (struct qn_scan). Each of NHead heads has a state of
// StateDim rows and HeadDim columns.
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
	StepMin       float32   // the least step
	StepMax       float32   // the greatest; 0: none is
	Group         int       // of the batch, where the state is
	Offset        int       // of this layer inside the state, in bytes
	Own
}

// ScanBytes returns the bytes of the state of a Scan.
func ScanBytes(nHead, stateDim, headDim int) int { return AlignUp(nHead * stateDim * headDim * 4) }

func (o Scan) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_SCAN
	c := operands[C.struct_qn_scan](op)
	if o.NHead < 1 || o.NGroup < 1 || o.NHead%o.NGroup != 0 || o.StateDim < 1 || o.HeadDim < 1 || o.HeadDim%Panel != 0 {
		return shapeErr("scan of %d heads of %d by %d in %d groups", o.NHead, o.StateDim, o.HeadDim, o.NGroup)
	}
	b.use(groupUse{group: o.Group, bytes: o.Offset + ScanBytes(o.own(o.NHead), o.StateDim, o.HeadDim), perSequence: true})
	width, numbers, rates := o.NHead*o.HeadDim, o.NHead, o.NHead
	if o.ByChannel {
		numbers, rates = width, width*o.StateDim
	}
	err := recurrence{
		dst: o.Dst, src: o.Src, col: o.Col, heads: o.NHead, keys: o.NGroup, rows: o.StateDim, cols: o.HeadDim,
		parts: [3]int{width, o.NGroup * o.StateDim, o.NGroup * o.StateDim}, at: place(o.Group, o.Offset), own: o.Own,
	}.fill(b, &c.r)
	if err != nil {
		return err
	}
	c.by_channel = flag(o.ByChannel)
	c.step_min, c.step_max = C.float(o.StepMin), C.float(o.StepMax)
	if err := b.cols(&c.step, o.Steps, TokRows, o.StepCol, numbers); err != nil {
		return err
	}
	if err := vector(b, &c.bias, o.Bias, numbers); err != nil {
		return err
	}
	if err := vector(b, &c.rate, o.Rate, rates); err != nil {
		return err
	}
	return vector(b, &c.skip, o.Skip, numbers)
}
