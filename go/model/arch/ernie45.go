package arch

import "github.com/quern-llm/quern/go/kernel"

// ernie45 is ERNIE 4.5 without experts, which is Llama.
var ernie45 = Arch{
	Name: "ernie4_5",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
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
