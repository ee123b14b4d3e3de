package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// falconh1 is Falcon H1: attention and a state space of the second kind side by side in
// every layer. The file has the multipliers of its projections in their weights.
var falconh1 = Arch{
	Name: "falcon-h1",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.Mamba2()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}), l.Mamba2(true))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
