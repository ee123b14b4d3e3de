package arch

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// limits reads what the inputs of the function in experts, and in shared ones, are held within.
func (k *keys) limits() {
	const routed, shared = "swiglu_clamp_exp", "swiglu_clamp_shexp"
	limit := func(v float64) float32 {
		if v < 0 {
			k.fail(routed, "%v, want 0 or more", v)
		}
		return float32(v)
	}
	if k.has(routed) {
		k.eachConstant(k.name(routed), func(l *Layer, v float64) { l.ExpertLimit, l.SharedLimit = limit(v), limit(v) })
	}
	if k.has(shared) {
		k.eachConstant(k.name(shared), func(l *Layer, v float64) { l.SharedLimit = limit(v) })
	}
}

// hashed reads in how many first layers the token decides the experts.
func (k *keys) hashed() {
	for il := range k.intOr("hash_layer_count", 0, 0, len(k.c.Layers)) {
		k.c.Layers[il].Hashed = true
	}
}

// limitsApart reads what the function of experts is held within, and that of shared experts and of dense layers.
func (k *keys) limitsApart() {
	k.limitsOfRouted()
	k.c.LimitFn = true
}

// limitsOfRouted is limits where shared experts have none that the file does not say.
func (k *keys) limitsOfRouted() {
	k.limits()
	if !k.has("swiglu_clamp_shexp") {
		for il := range k.c.Layers {
			k.c.Layers[il].SharedLimit = 0
		}
	}
}

// someExperts is experts where the file may also have none.
func (k *keys) someExperts() {
	if k.intOr("expert_count", 0, 0, maxExpert) > 0 {
		k.experts()
	}
}

// experts reads the sizes of a mixture of experts.
func (k *keys) experts() {
	c := k.c
	c.NExpert = k.int("expert_count", 1, maxExpert)
	c.NExpertUsed = k.int("expert_used_count", 1, min(c.NExpert, maxUsed))
	for il := range c.Layers {
		c.Layers[il].Sparse = true
	}
	if c.NGroup = k.intOr("expert_group_count", 0, 0, c.NExpert); c.NGroup > 1 {
		c.NGroupUsed = k.int("expert_group_used_count", 1, c.NGroup)
		if c.NExpert%c.NGroup != 0 {
			k.fail("expert_group_count", "%d, want a divisor of the %d experts", c.NGroup, c.NExpert)
		} else if has := c.NExpert / c.NGroup * c.NGroupUsed; has < c.NExpertUsed {
			k.fail("expert_group_used_count", "%d, whose experts are %d, want at least the %d that a token uses", c.NGroupUsed, has, c.NExpertUsed)
		}
	}
	if scale := k.floatOr("expert_weights_scale", 0, 0, 1e6); scale != 0 { // 0 is how some files say 1
		c.ExpertScale = float32(scale)
	}
	switch n := k.expertWidth(); {
	case k.has("expert_feed_forward_length"):
		c.NFFExpert = k.int("expert_feed_forward_length", 1, maxFF)
	case n > 0:
		c.NFFExpert = n
	default:
		c.NFFExpert = k.int("feed_forward_length", 1, maxFF)
	}
}

// expertWidth is the width of experts by the first layer that has some: files from before there was a key say that of all that a
// token uses, or of one. It is 0 if there are none, or none that may be.
func (k *keys) expertWidth() int {
	for il := range k.c.Layers {
		for _, name := range []string{"ffn_down_exps", "ffn_down.0"} {
			if t, ok := k.f.Tensor(fmt.Sprintf("blk.%d.%s.weight", il, name)); ok && len(t.Dims) >= 2 && t.Dims[0] <= maxFF {
				return int(t.Dims[0])
			}
		}
	}
	return 0
}

// expertWeights reads how the weights of experts come from a router's logits, which files
// may leave out where it is this.
func (k *keys) expertWeights(gating kernel.Gating, norm bool) {
	k.c.ExpertGating = gating
	const fn = "expert_gating_func"
	switch n := k.intOr(fn, 0, 0, math.MaxInt32); n {
	case 0:
	case 1:
		k.c.ExpertGating = kernel.GateSoftmax
	case 2:
		k.c.ExpertGating = kernel.GateSigmoid
	case 3:
		k.c.ExpertGating = kernel.GateChosen
	case 4:
		k.c.ExpertGating = kernel.GateSqrtSoftplus
	default:
		k.fail(fn, "%d is not supported, supported are 1 (softmax), 2 (sigmoid), 3 (softmax of the chosen) and 4 (root of the softplus)", n)
	}
	k.c.ExpertNorm = k.boolOr("expert_weights_norm", norm)
}

// denseLead reads how many of the first layers have no experts.
func (k *keys) denseLead() {
	n := k.intOr("leading_dense_block_count", 0, 0, len(k.c.Layers))
	for il := range n {
		k.c.Layers[il].Sparse = false
	}
}

// routed leaves experts to the layers that have a router.
func (k *keys) routed() {
	for il := range k.c.Layers {
		_, ok := k.f.Tensor(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", il))
		k.c.Layers[il].Sparse = k.c.Layers[il].Sparse && ok
	}
}

// corrected reports whether the choice of experts has a correction.
func (k *keys) corrected() bool {
	for il := range k.c.Layers {
		if _, ok := k.f.Tensor(fmt.Sprintf("blk.%d.exp_probs_b.bias", il)); ok {
			return true
		}
	}
	return false
}

// sparseEvery reads that every n-th layer has experts, and the others none.
func (k *keys) sparseEvery() {
	n := k.int("interleave_moe_layer_step", 1, maxLayer)
	for il := range k.c.Layers {
		if n > 0 && (il+1)%n != 0 {
			k.c.Layers[il].Sparse = false
		}
	}
}

// sharedExperts takes the width of the experts that every token uses from the first
// layer that has them: what the keys for it mean differs from converter to converter.
func (k *keys) sharedExperts() {
	for il := range k.c.Layers {
		t, ok := k.f.Tensor(fmt.Sprintf("blk.%d.ffn_up_shexp.weight", il))
		if !ok {
			continue
		}
		if len(t.Dims) != 2 || t.Dims[1] > maxFF {
			k.keep(fmt.Errorf("tensor %q: shape %v, want two dimensions and at most %d rows", t.Name, t.Dims, maxFF))
		}
		k.c.NFFShared = int(t.Dims[1])
		return
	}
}
