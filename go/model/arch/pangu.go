package arch

import "github.com/quern-llm/quern/go/kernel"

// pangu is openPangu Embedded: Llama with biases in attention.
var pangu = Arch{
	Name: "pangu-embedded",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
