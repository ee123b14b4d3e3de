package kernel

// #include "quern.h"
import "C"

// experts returns how many matrices rows have: one of each expert where they are pairs.
func (b *planBuilder) experts(op *C.struct_qn_op, rows RowSet) int {
	if rows != PairRows {
		return 1
	}
	return int(op.routing.n_expert)
}

// BackXIELU is the reverse of an XIELU, whose Dst has gradients here, of what it left, and gets those of what it found,
// which is in X from column 0 on (struct qn_back_xielu).
type BackXIELU struct {
	XIELU
	X Buf
}

func (o BackXIELU) fill(b *planBuilder, op *C.struct_qn_op) error {
	if err := o.XIELU.fill(b, op); err != nil {
		return err
	}
	xielu := *operands[C.struct_qn_xielu](op)
	op.kind = C.QN_OP_BACK_XIELU
	c := operands[C.struct_qn_back_xielu](op)
	c.xielu = xielu
	return b.cols(&c.x, o.X, o.Rows, 0, o.Cols)
}

// BackRoute is the reverse of a MoeRoute, whose Dst is read here: gradients of the logits in DLogits, by those of the weights
// of a token's choices in DWeight. Which experts are chosen stays (struct qn_back_route).
type BackRoute struct {
	MoeRoute
	DWeight, DLogits Buf
}

func (o BackRoute) fill(b *planBuilder, op *C.struct_qn_op) error {
	if err := o.MoeRoute.fill(b, op); err != nil {
		return err
	}
	if o.Same != 0 {
		return shapeErr("gradients of the logits of %d experts that return their input", o.Same)
	}
	route := *operands[C.struct_qn_moe_route](op)
	op.kind = C.QN_OP_BACK_ROUTE
	c := operands[C.struct_qn_back_route](op)
	c.route = route
	s := b.specs[o.MoeRoute.Dst]
	if err := b.floats(&c.d_weight, o.DWeight, TokRows, s.NUsed); err != nil {
		return err
	}
	return b.floats(&c.dst, o.DLogits, TokRows, s.NExpert)
}

// BackCombine is the reverse of a MoeCombine of X, Cols columns, whose sum has the gradients DY: gradients of X in Dst, and
// of the weights in DWeight, a column for each choice. Weighed: there are none (struct qn_back_combine).
type BackCombine struct {
	Dst, X, DY, DWeight, Route Buf
	Cols                       int
	Weighed                    bool
}

func (o BackCombine) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_BACK_COMBINE
	c := operands[C.struct_qn_back_combine](op)
	c.n_col, c.weighed = C.int32_t(o.Cols), flag(o.Weighed)
	c.x, c.d_weight = C.int32_t(none), C.int32_t(none)
	if err := b.route(op, o.Route); err != nil {
		return err
	}
	if err := b.floats(&c.dst, o.Dst, PairRows, o.Cols); err != nil {
		return err
	}
	if err := b.floats(&c.dy, o.DY, TokRows, o.Cols); err != nil || o.Weighed {
		return err
	}
	if err := b.floats(&c.x, o.X, PairRows, o.Cols); err != nil {
		return err
	}
	return b.floats(&c.d_weight, o.DWeight, TokRows, b.specs[o.Route].NUsed)
}

// BackPairs is the reverse of a MoeGather of Cols columns: Dst is the sum of the gradients DY of each token's pairs, or
// that added. Weigh: times their weights, whose gradients go to DWeight; X is then the tokens' activations, of ActF32
// (struct qn_back_pairs).
type BackPairs struct {
	Dst                   Columns
	DY, X, DWeight, Route Buf
	Cols                  int
	Add, Weigh            bool
}

func (o BackPairs) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_BACK_PAIRS
	c := operands[C.struct_qn_back_pairs](op)
	c.n_col, c.add, c.weigh = C.int32_t(o.Cols), flag(o.Add), flag(o.Weigh)
	c.x, c.d_weight = C.int32_t(none), C.int32_t(none)
	if err := b.route(op, o.Route); err != nil {
		return err
	}
	if err := b.floats(&c.dy, o.DY, PairRows, o.Cols); err != nil {
		return err
	}
	if err := o.Dst.fill(b, &c.dst, TokRows, o.Cols); err != nil || !o.Weigh {
		return err
	}
	if err := b.one(&c.x, ActF32, o.X, TokRows); err != nil {
		return err
	}
	return b.floats(&c.d_weight, o.DWeight, TokRows, b.specs[o.Route].NUsed)
}
