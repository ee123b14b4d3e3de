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
			if l.has("attn_gate.weight") {
				a.gate = gateHead
			}
			l.residual("attn_norm", l.attention(a))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
