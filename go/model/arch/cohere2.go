package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// cohere2 is Command R7B and A: Command R with a window and rotations in three
// layers of four, and neither in the fourth.
var cohere2 = Arch{
	Name: "cohere2",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNorm)
		k.Config.LogitScale = float32(k.FloatOr("logit_scale", 1, 1e-6, 1e6))
		k.Windows(AllBut(4))
		k.RopeInWindows()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}), l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
