package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma is Gemma 1: embeddings times the root of their width, GELU.
var gemma = Arch{
	Name: "gemma",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
		k.EmbedScale()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU}))
		})
		b.End("output_norm")
	},
}
