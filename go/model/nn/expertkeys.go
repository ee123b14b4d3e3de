package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// ExpertLimits reads the limits of the inputs of the activation in routed and in shared experts.
func (k *Keys) ExpertLimits() {
	const routed, shared = "swiglu_clamp_exp", "swiglu_clamp_shexp"
	limit := func(v float64) float32 {
		if v < 0 {
			k.Fail(routed, "%v, want 0 or more", v)
		}
		return float32(v)
	}
	if k.Has(routed) {
		k.EachConstant(k.Name(routed), func(l *LayerConfig, v float64) {
			l.ExpertLimit, l.SharedLimit = limit(v),
				limit(v)
		})
	}
	if k.Has(shared) {
		k.EachConstant(k.Name(shared), func(l *LayerConfig, v float64) { l.SharedLimit = limit(v) })
	}
}

// HashedExperts reads in how many first layers the token decides the experts.
func (k *Keys) HashedExperts() {
	for il := range k.IntOr("hash_layer_count", 0, 0, len(k.Config.Layers)) {
		k.Config.Layers[il].Hashed = true
	}
}

// ExpertLimitsApart reads limits of the output of the activation, for routed experts, and for shared experts and dense
// layers.
func (k *Keys) ExpertLimitsApart() {
	k.RoutedExpertLimits()
	k.Config.LimitFn = true
}

// RoutedExpertLimits is ExpertLimits for models whose shared experts have no limit by default.
func (k *Keys) RoutedExpertLimits() {
	k.ExpertLimits()
	if !k.Has("swiglu_clamp_shexp") {
		for il := range k.Config.Layers {
			k.Config.Layers[il].SharedLimit = 0
		}
	}
}

// OptionalExperts is Experts if the file has any.
func (k *Keys) OptionalExperts() {
	if k.IntOr("expert_count", 0, 0, maxExpert) > 0 {
		k.Experts()
	}
}

// Experts reads the sizes of a mixture of experts.
func (k *Keys) Experts() {
	c := k.Config
	c.NExpert = k.Int("expert_count", 1, maxExpert)
	c.NExpertUsed = k.Int("expert_used_count", 1, min(c.NExpert, maxUsed))
	for il := range c.Layers {
		c.Layers[il].Sparse = true
	}
	if c.NGroup = k.IntOr("expert_group_count", 0, 0, c.NExpert); c.NGroup > 1 {
		c.NGroupUsed = k.Int("expert_group_used_count", 1, c.NGroup)
		if c.NExpert%c.NGroup != 0 {
			k.Fail("expert_group_count", "%d, want a divisor of the %d experts", c.NGroup, c.NExpert)
		} else if has := c.NExpert / c.NGroup * c.NGroupUsed; has < c.NExpertUsed {
			k.Fail("expert_group_used_count", "%d, whose experts are %d, want at least the %d that a token uses",
				c.NGroupUsed, has, c.NExpertUsed)
		}
	}
	if scale := k.FloatOr("expert_weights_scale", 0, 0, 1e6); scale != 0 { // 0 is how some files say 1
		c.ExpertScale = float32(scale)
	}
	switch n := k.expertWidth(); {
	case k.Has("expert_feed_forward_length"):
		c.NFFExpert = k.Int("expert_feed_forward_length", 1, MaxFF)
	case n > 0:
		c.NFFExpert = n
	default:
		c.NFFExpert = k.Int("feed_forward_length", 1, MaxFF)
	}
}

// expertWidth is the width of the experts of the first layer that has some, by its tensors: in old files the key has
// the width of all experts of a token, or of one. It is 0 if there are none, or if it is too large.
func (k *Keys) expertWidth() int {
	for il := range k.Config.Layers {
		for _, name := range []string{"ffn_down_exps", "ffn_down.0"} {
			if t, ok := k.File.Tensor(fmt.Sprintf("blk.%d.%s.weight", il, name)); ok && len(t.Dims) >= 2 &&
				t.Dims[0] <= MaxFF {
				return int(t.Dims[0])
			}
		}
	}
	return 0
}

// ExpertWeights reads how the weights of experts follow from the scores of the router. gating and norm are the
// defaults.
func (k *Keys) ExpertWeights(gating kernel.Gating, norm bool) {
	k.Config.ExpertGating = gating
	const fn = "expert_gating_func"
	switch n := k.IntOr(fn, 0, 0, math.MaxInt32); n {
	case 0:
	case 1:
		k.Config.ExpertGating = kernel.GateSoftmax
	case 2:
		k.Config.ExpertGating = kernel.GateSigmoid
	case 3:
		k.Config.ExpertGating = kernel.GateChosen
	case 4:
		k.Config.ExpertGating = kernel.GateSqrtSoftplus
	default:
		k.Fail(fn, "%d is not supported, supported are 1 (softmax), 2 (sigmoid), 3 (softmax of the chosen) "+
			"and 4 (root of the softplus)", n)
	}
	k.ExpertNorm(norm)
}

// ExpertNorm reads whether the weights of a token's experts sum to 1.
func (k *Keys) ExpertNorm(otherwise bool) {
	k.Config.ExpertNorm = k.BoolOr("expert_weights_norm", otherwise)
}

// LeadingDense reads how many first layers have no experts.
func (k *Keys) LeadingDense() {
	n := k.IntOr("leading_dense_block_count", 0, 0, len(k.Config.Layers))
	for il := range n {
		k.Config.Layers[il].Sparse = false
	}
}

// RoutedLayers removes the experts from layers without a router.
func (k *Keys) RoutedLayers() {
	for il := range k.Config.Layers {
		_, ok := k.File.Tensor(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", il))
		k.Config.Layers[il].Sparse = k.Config.Layers[il].Sparse && ok
	}
}

// DenseBesides removes the experts from layers without a router, and reads the width of their feed-forward if there are
// any.
func (k *Keys) DenseBesides() {
	k.RoutedLayers()
	if slices.ContainsFunc(k.Config.Layers, func(l LayerConfig) bool { return !l.Sparse }) {
		k.FeedForward()
	}
}

// HasExpertBias reports whether the selection of experts has a bias.
func (k *Keys) HasExpertBias() bool {
	for il := range k.Config.Layers {
		if _, ok := k.File.Tensor(fmt.Sprintf("blk.%d.exp_probs_b.bias", il)); ok {
			return true
		}
	}
	return false
}

// InterleavedExperts reads that every n-th layer has experts and the others have none.
func (k *Keys) InterleavedExperts() {
	n := k.Int("interleave_moe_layer_step", 1, MaxLayer)
	for il := range k.Config.Layers {
		if n > 0 && (il+1)%n != 0 {
			k.Config.Layers[il].Sparse = false
		}
	}
}

// SharedExperts takes the width of the shared experts from the first layer that has them: converters do not agree on
// the keys.
func (k *Keys) SharedExperts() {
	for il := range k.Config.Layers {
		t, ok := k.File.Tensor(fmt.Sprintf("blk.%d.ffn_up_shexp.weight", il))
		if !ok {
			continue
		}
		if len(t.Dims) != 2 || t.Dims[1] > MaxFF {
			k.Check(fmt.Errorf("tensor %q: shape %v, want two dimensions and at most %d rows", t.Name, t.Dims, MaxFF))
		}
		k.Config.NFFShared = int(t.Dims[1])
		return
	}
}
