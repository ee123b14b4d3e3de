package arch

import "github.com/quern-llm/quern/go/kernel"

// plamo is PLaMo: both sublayers read the same norm.
var plamo = Arch{
	Name: "plamo",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}), l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
