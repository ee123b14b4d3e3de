package arch

import "github.com/quern-llm/quern/go/kernel"

// phi2 is Phi 1.5 and 2: both sublayers read the same norm, which has a mean; biases
// everywhere, GELU without a gate.
var phi2 = Arch{
	Name: "phi2",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}), l.feedForward(feedForward{fn: kernel.GELU, plain: true}))
		})
		b.end("output_norm")
	},
}
