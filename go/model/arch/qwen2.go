package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen2 is Qwen 2 and 2.5: rotations across halves of a head, and biases of
// queries, keys and values.
var qwen2 = Arch{
	Name: "qwen2",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{bias: true}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
