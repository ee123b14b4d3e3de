package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// maincoder is Maincoder: Llama with norms of queries and keys after the rotations.
var maincoder = Arch{
	Name: "maincoder",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormAfterRope}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
