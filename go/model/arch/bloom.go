package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// bloom is BLOOM: ALiBi, a norm of the embeddings, norms with a mean, biases everywhere, GELU
// without a gate.
var bloom = Arch{
	Name: "bloom",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Config.ALiBi = true
	},
	build: func(b *Builder) {
		b.Begin(func() { b.Normalise("token_embd_norm") })
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, Ungated: true}))
		})
		b.End("output_norm")
	},
}
