package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// jetmoe is JetMoE: experts in place of attention's queries and results, and of feed-forwards. What is added to all
// results of a sublayer is a bias of each expert, since their weights sum to 1.
var jetmoe = Arch{
	Name: "jetmoe",
	config: func(k *Keys) {
		c := k.Config
		k.RMSNorm()
		c.OutputEps, c.Eps = c.Eps, 1e-6 // which that of the layers is, whatever files say
		k.Heads()
		k.Experts()
		c.ExpertGating, c.ExpertNorm = kernel.GateChosen, true
		k.ExpertHeads()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.ExpertAttention())
			l.Residual("ffn_norm", l.Experts(Experts{}))
		})
		b.End("output_norm")
	},
}
