package arch

import "github.com/quern-llm/quern/go/kernel"

// jais2 is Jais 2: LayerNorm and biases everywhere, squared ReLU without a gate.
var jais2 = Arch{
	Name: "jais2",
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
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.ReLU2, plain: true}))
		})
		b.end("output_norm")
	},
}
