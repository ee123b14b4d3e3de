package arch

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// The keys that most architectures share, by what they describe.

// model reads what every architecture has, and makes the layers.
func (k *keys) model() {
	k.c.NCtx = k.int("context_length", 1, maxCtx)
	k.c.NEmbd = k.int("embedding_length", 1, maxEmbd)
	blocks := k.int("block_count", 1, maxLayer)
	if k.has("attention.causal") {
		causal, err := k.f.Bool(k.name("attention.causal"))
		k.keep(err)
		k.c.BothWays = !causal
	}
	k.pooling()
	if !k.head { // whose layers all do
		k.c.NNext = k.intOr("nextn_predict_layers", 0, 0, max(blocks-1, 0))
	}
	k.c.Layers = make([]Layer, blocks-k.c.NNext)
}

// rms reads the epsilon of RMS norms.
func (k *keys) rms() {
	k.c.Eps = float32(k.float("attention.layer_norm_rms_epsilon", 0, 1))
}

// layerNorm reads the epsilon of norms that take the mean away.
func (k *keys) layerNorm() {
	k.c.Norm = kernel.LayerNorm
	k.c.Eps = float32(k.float("attention.layer_norm_epsilon", 0, 1))
}

// heads reads the shape of the attention, which all layers have.
func (k *keys) heads() { k.someHeads(false) }

// mixedHeads is heads where layers without key-value heads are of another kind.
func (k *keys) mixedHeads() { k.someHeads(true) }

func (k *keys) someHeads(mixed bool) {
	layers := k.c.Layers
	least := 1
	if mixed {
		least = 0
	}
	k.each("attention.head_count", least, maxHead, func(l *Layer, n int) { l.NHead, l.NHeadKV = n, n })
	k.eachOr("attention.head_count_kv", least, maxHead, func(l *Layer, n int) { l.NHeadKV = n })
	for i := range layers {
		l := &layers[i]
		if l.NHeadKV > 0 && (l.NHead == 0 || l.NHead%l.NHeadKV != 0) {
			k.fail("attention.head_count_kv", "%d, want a divisor of the %d heads", l.NHeadKV, l.NHead)
		}
		if l.NHead == 0 {
			continue
		}
		l.HeadDim = k.c.NEmbd / l.NHead
		if k.c.NEmbd%l.NHead != 0 && !k.has("attention.key_length") {
			k.fail("attention.head_count", "%d, want a divisor of the embedding length %d", l.NHead, k.c.NEmbd)
		}
	}
	k.eachOr("attention.key_length", 1, maxHeadDim, func(l *Layer, n int) { l.HeadDim = n })
	for i := range layers {
		layers[i].ValueDim = layers[i].HeadDim
	}
	k.eachOr("attention.value_length", 1, maxHeadDim, func(l *Layer, n int) { l.ValueDim = n })
	for i := range layers {
		l := &layers[i]
		l.AttnScale = float32(1 / math.Sqrt(float64(max(l.HeadDim, 1))))
	}
}

// feedForward reads the width of the dense part.
func (k *keys) feedForward() {
	k.each("feed_forward_length", 1, maxFF, func(l *Layer, n int) { l.NFF = n })
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

// rope reads the rotations of all layers.
func (k *keys) rope(style kernel.Rope) { k.ropeOver(style, "rope.dimension_count") }

// ropeOver is rope where another key says over how many dimensions.
func (k *keys) ropeOver(style kernel.Rope, rotated string) {
	scaling := k.scaling()
	base := k.floatOr("rope.freq_base", 10000, 1.001, 1e15)
	for i := range k.c.Layers {
		l := &k.c.Layers[i]
		if l.NHead == 0 {
			continue
		}
		r := Rope{Style: style, Base: base, Scaling: scaling, Factors: "rope_freqs.weight"}
		if _, ok := k.f.Tensor(longFactors); ok {
			r.NCtxShort = k.intOr("rope.scaling.original_context_length", k.c.NCtx, 1, maxCtx)
		}
		r.NRot = k.intOr(rotated, l.HeadDim, 2, max(l.HeadDim, 2))
		if r.NRot%2 != 0 {
			k.fail(rotated, "%d, want an even number", r.NRot)
		}
		l.Rope = r
	}
}

// noRope takes the rotations from all layers.
func (k *keys) noRope() {
	for il := range k.c.Layers {
		k.c.Layers[il].Rope = Rope{}
	}
}

// temperature reads by what queries grow with their position, over as many positions as a
// key says.
func (k *keys) temperature(span string) {
	scale := float32(k.floatOr("attention.temperature_scale", 0, 0, 1e3))
	if scale == 0 {
		return
	}
	if !k.has(span) {
		span = "rope.scaling.original_context_length"
	}
	t := kernel.Temperature{Scale: scale, Span: k.intOr(span, k.c.NCtx, 1, maxCtx)}
	for il := range k.c.Layers {
		k.c.Layers[il].Temperature = t
	}
}

// windows gives a window to the layers that the file says, else to those that
// windowed does.
func (k *keys) windows(windowed func(il int) bool) { k.windowsIn(windowed, allBut) }

// windowsIn is windows where the number of a pattern means what of makes of it.
func (k *keys) windowsIn(windowed func(il int) bool, of func(n int) func(il int) bool) {
	k.windowsOf(k.int("attention.sliding_window", 1, maxCtx), windowed, of)
}

// windowsOf is windowsIn with windows of n positions.
func (k *keys) windowsOf(n int, windowed func(il int) bool, of func(n int) func(il int) bool) {
	const pattern = "attention.sliding_window_pattern"
	if all, err := k.f.Bools(k.name(pattern)); err == nil {
		k.forLayers(pattern, len(all))
		windowed = func(il int) bool { return all[il] }
	} else if all, err := k.f.Ints(k.name(pattern)); err == nil {
		k.forLayers(pattern, len(all))
		windowed = func(il int) bool { return all[il] != 0 }
	} else if k.has(pattern) {
		windowed = of(k.int(pattern, 0, maxLayer))
	}
	for il := range k.c.Layers {
		if windowed(il) {
			k.c.Layers[il].Window = n
		}
	}
}

// windowRope gives the rotations of layers with a window the base that the file says, else this one, and leaves the positions
// there as they are.
func (k *keys) windowRope(base float64) {
	base = k.floatOr("rope.freq_base_swa", base, 1.001, 1e15)
	for il := range k.c.Layers {
		if l := &k.c.Layers[il]; l.Window > 0 {
			l.Rope.Base, l.Rope.Scaling = base, noScaling
		}
	}
}

// windowBase gives the rotations of layers with a window the base that the file says. (llama.cpp reads it for cohere2 and olmo2
// too, and uses it for others only.)
func (k *keys) windowBase() {
	const key = "rope.freq_base_swa"
	if !k.has(key) {
		return
	}
	base := k.float(key, 1.001, 1e15)
	for _, layers := range [][]Layer{k.c.Layers, k.c.NextLayers} {
		for il := range layers {
			if l := &layers[il]; l.Window > 0 && l.Rope.Style != kernel.RopeNone {
				l.Rope.Base = base
			}
		}
	}
}

// ropeInWindows takes the rotations from layers without a window.
func (k *keys) ropeInWindows() {
	for il := range k.c.Layers {
		if l := &k.c.Layers[il]; l.Window == 0 {
			l.Rope = Rope{}
		}
	}
}

// allButFirst is true for all layers but those whose number n divides; of 0, for all.
func allButFirst(n int) func(il int) bool {
	return func(il int) bool { return n == 0 || il%n != 0 }
}

// allBut is true for all layers but every n-th; of 0 and 1, for all and for none.
func allBut(n int) func(il int) bool {
	return func(il int) bool { return n == 0 || il%n < n-1 }
}

// scaling reads how the rotations are stretched.
func (k *keys) scaling() Scaling {
	s := noScaling
	const typ = "rope.scaling.type"
	switch {
	case k.has(typ):
		var err error
		s.Type, err = k.f.Str(k.name(typ))
		k.keep(err)
	case k.has("rope.scaling.factor") || k.has("rope.scale_linear"):
		s.Type = "linear" // what the key meant before there were types
	}
	if !slices.Contains([]string{"none", "linear", "yarn", "longrope"}, s.Type) {
		k.fail(typ, "%.40q is not supported, supported are none linear yarn longrope", s.Type)
	}
	if k.has("rope.scaling.attn_factor") {
		s.AttnFactor = k.float("rope.scaling.attn_factor", 1e-3, 1e3)
	}
	if s.Type == "none" || s.Type == "longrope" {
		return s
	}
	s.Factor = k.floatOr("rope.scaling.factor", k.floatOr("rope.scale_linear", 1, 0, 1e6), 0, 1e6)
	if s.Factor == 0 { // some files write 0 for none
		s.Factor = 1
	}
	if s.Type != "yarn" {
		return s
	}
	s.NCtxOrig = k.intOr("rope.scaling.original_context_length", k.c.NCtx, 1, maxCtx)
	s.ExtFactor = k.floatOr("rope.scaling.yarn_ext_factor", 1, 0, 1)
	// The length of transformers' attention_factor. But 1 is that of configurations with attn_factor,
	// which multiplies the length that YaRN has.
	if n := k.floatOr("rope.scaling.yarn_attn_factor", 1, 1e-3, 1e3); n != 1 {
		s.Length = n
	}
	s.LogMultiplier = k.floatOr("rope.scaling.yarn_log_multiplier", 0, 0, 1e3)
	s.BetaFast = k.floatOr("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6)
	s.BetaSlow = k.floatOr("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6)
	return s
}
