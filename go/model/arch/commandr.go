package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// commandr is Command R: both sublayers read the same norm, which has a mean and no
// bias; logits are scaled.
var commandr = Arch{
	Name: "command-r",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNorm)
		k.Config.LogitScale = float32(k.FloatOr("logit_scale", 1, 1e-6, 1e6))
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormEachHead}), l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
