package kernel

// #include "quern.h"
import "C"

import "unsafe"

// Gating is how the weights of experts are computed.
type Gating int32

const (
	GateSoftmax Gating = C.QN_GATE_SOFTMAX // softmax of a router's logits
	GateSigmoid Gating = C.QN_GATE_SIGMOID // their sigmoids
	GateChosen  Gating = C.QN_GATE_CHOSEN  // softmax of the logits of the chosen experts alone
	GateMixer   Gating = C.QN_GATE_MIXER   // each choice: softmax of the logits that are left and nearly as large

	GateSqrtSoftplus Gating = C.QN_GATE_SQRT_SOFTPLUS // the root of their softplus
)

// MoeRoute chooses the experts of each token by its router logits in Src, those of the
// largest weights, and weighs them, times Scale. Of more than one group only the experts
// in the GroupsUsed best are considered; a group counts for its two best, or with BestOfGroup for its best alone.
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
}

func (o MoeRoute) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MOE_ROUTE
	c.scale, c.gating = C.float(o.Scale), C.int32_t(o.Gating)
	c.n_group, c.n_group_used = C.int32_t(o.Groups), C.int32_t(o.GroupsUsed)
	if o.BestOfGroup {
		c.group_best = 1
	}
	if o.Renorm {
		c.norm_weights = 1
	}
	if err := b.route(c, &c.dst, o.Dst); err != nil {
		return err
	}
	if err := optional(b, &c.vec, o.Bias, b.specs[o.Dst].NExpert); err != nil {
		return err
	}
	if o.Choice != nil {
		c.choice = (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(o.Choice)))
	}
	return b.floats(&c.src, o.Src, TokRows, b.specs[o.Dst].NExpert)
}

// MoeGather copies the activations of each token in Src, Cols wide, to its
// pairs in Dst.
type MoeGather struct {
	Dst, Src Act
	Cols     int
	Route    Buf
	Weigh    bool // times the weight of the pair's expert
}

func (o MoeGather) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MOE_GATHER
	c.n_col = C.int32_t(o.Cols)
	if o.Weigh {
		c.weigh_input = 1
	}
	if err := b.act(&c.src_act, o.Src, TokRows); err != nil {
		return err
	}
	if err := b.act(&c.act, o.Dst, PairRows); err != nil {
		return err
	}
	return b.route(c, &c.aux, o.Route)
}

// MoeCombine is Dst[t] += the sum over t's pairs, best expert first, of the
// expert's weight times Src[pair], or of Src[pair] where the input was weighed. With Store
// it is that sum.
type MoeCombine struct {
	Dst, Src, Route Buf
	Weighed, Store  bool
}

func (o MoeCombine) fill(b *planBuilder, c *C.struct_qn_op) error {
	c.kind = C.QN_OP_MOE_COMBINE
	if !o.Store {
		c.epilogue = C.QN_EPI_ADD
	}
	if o.Weighed {
		c.weigh_input = 1
	}
	if err := b.floats(&c.dst, o.Dst, TokRows, 1); err != nil {
		return err
	}
	if err := b.floats(&c.src, o.Src, PairRows, b.specs[o.Dst].Width); err != nil {
		return err
	}
	return b.route(c, &c.aux, o.Route)
}
