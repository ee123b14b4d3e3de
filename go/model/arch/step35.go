package arch

import "github.com/quern-llm/quern/go/kernel"

// step35 is Step 3.5: windows in most layers, with more heads and another base of rotations than the rest, where half of what
// rope.dimension_count says is rotated; a gate for each head; sigmoid routing with a correction of the choice in the layers that have a
// router, in some with limits of what the function makes.
var step35 = Arch{
	Name: "step35",
	config: func(k *keys) {
		k.withNext(func() {
			k.rms()
			k.heads()
			k.feedForward()
			k.experts()
			k.expertWeights(kernel.GateSigmoid, false)
			k.routed()
			k.sharedExperts()
			k.limitsApart()
			k.rope(kernel.RopeNeox)
			k.listedWindows()
			k.windowRope(10000)
			k.rotatedInWindows(func(l *Layer) {
				l.Rope.Of = l.Rope.NRot // factors are as many as layers with a window would have
				l.Rope.NRot /= 2
			})
		})
		k.c.NextRaw = true
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			a := attention{norm: normMaybe}
			if l.w.Has(l.blk + "attn_gate.weight") {
				a.gate = gateHead
			}
			l.residual("attn_norm", l.attention(a))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}

// rotatedInWindows reads over how many dimensions layers with a window rotate, which are as many as the others say where the file does not.
// These take no factors. others changes the rest.
func (k *keys) rotatedInWindows(others func(l *Layer)) {
	const rotated = "rope.dimension_count_swa"
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		switch {
		case l.Window == 0:
			if others != nil {
				others(l)
			}
		default:
			l.Rope.NRot, l.Rope.Factors = k.intOr(rotated, l.Rope.NRot, 2, max(l.HeadDim, 2)), ""
		}
		if l.Rope.NRot%2 != 0 {
			k.fail(rotated, "%d in layer %d, want an even number", l.Rope.NRot, il)
		}
	}
}

// listedWindows gives a window to the layers that the file lists.
func (k *keys) listedWindows() {
	if _, err := k.f.Bools(k.name("attention.sliding_window_pattern")); err != nil {
		k.keep(err)
		return
	}
	k.windows(nil)
}

// withNext reads the sizes of the blocks that predict further tokens as those of layers: the file lists them with the others.
func (k *keys) withNext(read func()) {
	c, n, more := k.c, len(k.c.Layers), k.c.NNext
	c.Layers, c.NNext = make([]Layer, n+more), 0
	read()
	c.Layers, c.NextLayers, c.NNext = c.Layers[:n:n], c.Layers[n:], more
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
