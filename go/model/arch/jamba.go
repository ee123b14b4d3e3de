package arch

import "github.com/quern-llm/quern/go/kernel"

// jamba is Jamba: state spaces of the first kind, whose inputs are normalised, in most
// layers, attention without rotations in those with key-value heads, and experts in the
// layers that have a router.
var jamba = Arch{
	Name: "jamba",
	config: func(k *keys) {
		k.rms()
		k.mixedHeads()
		k.feedForward()
		k.mamba()
		k.someExperts()
		k.c.ExpertGating = kernel.GateSoftmax
		k.routed()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			if l.NHeadKV == 0 {
				l.residual("attn_norm", l.mamba(scanWeights))
			} else {
				l.residual("attn_norm", l.attention(attention{}))
			}
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
