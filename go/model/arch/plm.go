package arch

import "github.com/quern-llm/quern/go/kernel"

// plm is PLM 1.8B: attention over latents, and squared ReLU without a gate.
var plm = Arch{
	Name: "plm",
	config: func(k *keys) {
		k.rms()
		k.latents()
		k.feedForward()
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.latentAttention(latent{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.ReLU2, plain: true}))
		})
		b.end("output_norm")
	},
}
