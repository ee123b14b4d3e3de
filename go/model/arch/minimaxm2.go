package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// minimaxm2 is MiniMax M2: queries and keys normalised as rows, half of each head rotated,
// sigmoid routing with a correction of the choice.
var minimaxm2 = Arch{
	Name: "minimax-m2",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, true)
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormRow}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
