package kernel

// #include "quern.h"
import "C"

import (
	"cmp"
	"math"
	"unsafe"
)

// Gating is how the weights of experts are computed.
type Gating int32

const (
	GateSoftmax Gating = C.QN_GATE_SOFTMAX // softmax of a router's logits
	GateSigmoid Gating = C.QN_GATE_SIGMOID // their sigmoids
	GateChosen  Gating = C.QN_GATE_CHOSEN  // softmax of the logits of the chosen experts alone
	GateMixer   Gating = C.QN_GATE_MIXER   // each choice: softmax of the logits that are left and nearly as large

	GateSqrtSoftplus Gating = C.QN_GATE_SQRT_SOFTPLUS // the root of their softplus
)

// MoeRoute chooses the experts of each token by its router logits in Src, and weighs them (struct qn_moe_route).
type MoeRoute struct {
	Dst                Buf // of kind Route
	Src                Buf
	Gating             Gating
	Bias               []float32 // of each expert, added for the choice alone; nil: none
	Groups, GroupsUsed int
	BestOfGroup        bool
	Renorm             bool // the weights of the chosen sum to Scale
	Scale              float32
	Choice             []int32 // as many experts of each token of the vocabulary as it uses; nil: the best
	Same               int     // experts that return their input, whose logits are behind those of the others
}

func (o MoeRoute) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_MOE_ROUTE
	c := operands[C.struct_qn_moe_route](op)
	c.scale, c.gating = C.float(o.Scale), C.int32_t(o.Gating)
	c.n_group, c.n_group_used, c.group_best = C.int32_t(o.Groups), C.int32_t(o.GroupsUsed), flag(o.BestOfGroup)
	c.norm_weights = flag(o.Renorm)
	if err := b.route(op, o.Dst); err != nil {
		return err
	}
	if o.Same < 0 || o.Same > math.MaxInt32-b.specs[o.Dst].NExpert {
		return shapeErr("%d experts that return their input", o.Same)
	}
	c.n_same = C.int32_t(o.Same)
	if err := optional(b, &c.bias, o.Bias, b.specs[o.Dst].NExpert+o.Same); err != nil {
		return err
	}
	if o.Choice != nil {
		c.choice = (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(o.Choice)))
	}
	return b.floats(&c.src, o.Src, TokRows, b.specs[o.Dst].NExpert+o.Same)
}

// MoeGather copies the activations of each token in Src, Cols wide, to its
// pairs in Dst.
type MoeGather struct {
	Dst, Src Act
	Cols     int
	Route    Buf
	Weigh    bool // times the weight of the pair's expert
}

func (o MoeGather) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_MOE_GATHER
	c := operands[C.struct_qn_moe_gather](op)
	c.n_col, c.weigh = C.int32_t(o.Cols), flag(o.Weigh)
	if err := b.act(&c.src, o.Src, TokRows); err != nil {
		return err
	}
	if err := b.act(&c.dst, o.Dst, PairRows); err != nil {
		return err
	}
	return b.route(op, o.Route)
}

// MoeCombine is Dst[t] += the sum over t's pairs, best expert first, of the
// expert's weight times Src[pair], or of Src[pair] where the input was weighed. With Store
// it is that sum.
type MoeCombine struct {
	Dst, Src, Route Buf
	Weighed, Store  bool
	Same            Buf // what experts that return their input return, if there are some
	ReturnsSame     bool
	Col, Cols       int // of columns from Col on, a multiple of Panel; Cols 0: of all
}

func (o MoeCombine) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_MOE_COMBINE
	c := operands[C.struct_qn_moe_combine](op)
	c.weighed, c.add = flag(o.Weighed), flag(!o.Store)
	c.col, c.n_col = C.int32_t(o.Col), C.int32_t(o.Cols)
	if err := b.floats(&c.dst, o.Dst, TokRows, max(o.Col+o.Cols, 1)); err != nil {
		return err
	}
	width := cmp.Or(o.Cols, b.specs[o.Dst].Width) + o.Col
	if err := b.floats(&c.src, o.Src, PairRows, width); err != nil {
		return err
	}
	if c.same = -1; o.ReturnsSame {
		if err := b.floats(&c.same, o.Same, TokRows, width); err != nil {
			return err
		}
	}
	return b.route(op, o.Route)
}

// MoeHeads moves heads of the pairs of a token to its row: head h of choice k becomes head h * used + k of Tok. With
// ToPairs it moves them back.
type MoeHeads struct {
	Tok, Pair, Route Buf
	NHead, HeadDim   int
	ToPairs          bool
}

func (o MoeHeads) fill(b *planBuilder, op *C.struct_qn_op) error {
	op.kind = C.QN_OP_MOE_HEADS
	c := operands[C.struct_qn_moe_heads](op)
	if o.NHead < 1 || o.HeadDim < 1 || o.HeadDim > math.MaxInt16 || o.NHead > math.MaxInt16 {
		return shapeErr("%d heads of %d columns of pairs", o.NHead, o.HeadDim)
	}
	c.n_head, c.head_dim, c.to_pairs = C.int32_t(o.NHead), C.int32_t(o.HeadDim), flag(o.ToPairs)
	if err := b.route(op, o.Route); err != nil {
		return err
	}
	if err := b.floats(&c.tok, o.Tok, TokRows, o.NHead*o.HeadDim*b.specs[o.Route].NUsed); err != nil {
		return err
	}
	return b.floats(&c.pair, o.Pair, PairRows, o.NHead*o.HeadDim)
}
