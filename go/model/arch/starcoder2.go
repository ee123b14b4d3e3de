package arch

import "github.com/quern-llm/quern/go/kernel"

// starcoder2 is StarCoder 2: norms with a mean, biases everywhere, GELU without
// a gate.
var starcoder2 = Arch{
	Name: "starcoder2",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, plain: true}))
		})
		b.end("output_norm")
	},
}
