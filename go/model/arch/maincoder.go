package arch

import "github.com/quern-llm/quern/go/kernel"

// maincoder is Maincoder: Llama with norms of queries and keys after the rotations.
var maincoder = Arch{
	Name: "maincoder",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normAfter}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
