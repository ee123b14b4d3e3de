package arch

import "github.com/quern-llm/quern/go/kernel"

// bloom is BLOOM: ALiBi, a norm of the embeddings, norms with a mean, biases everywhere, GELU
// without a gate.
var bloom = Arch{
	Name: "bloom",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.c.ALiBi = true
	},
	build: func(b *builder) {
		b.begin(func() { b.normalise("token_embd_norm") })
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, plain: true}))
		})
		b.end("output_norm")
	},
}
