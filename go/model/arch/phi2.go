package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// phi2 is Phi 1.5 and 2: both sublayers read the same norm, which has a mean; biases
// everywhere, GELU without a gate; in some models norms of queries and keys.
var phi2 = Arch{
	Name: "phi2",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormCenteredOptional}),
				l.FeedForward(FeedForward{Fn: kernel.GELU, Ungated: true}))
		})
		b.End("output_norm")
	},
}
