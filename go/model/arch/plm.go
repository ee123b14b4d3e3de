package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// plm is PLM 1.8B: attention over latents, and squared ReLU without a gate.
var plm = Arch{
	Name: "plm",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.FeedForward()
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.LatentAttention(LatentAttention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.ReLU2, Ungated: true}))
		})
		b.End("output_norm")
	},
}
