package arch

import "github.com/quern-llm/quern/go/kernel"

// gemma is Gemma 1: embeddings times the root of their width, GELU.
var gemma = Arch{
	Name: "gemma",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.embedScale()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU}))
		})
		b.end("output_norm")
	},
}
