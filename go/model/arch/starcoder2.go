package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// starcoder2 is StarCoder 2: norms with a mean, biases everywhere, GELU without
// a gate.
var starcoder2 = Arch{
	Name: "starcoder2",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, Ungated: true}))
		})
		b.End("output_norm")
	},
}
