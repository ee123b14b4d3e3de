package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// bailingmoe3 is Ling 3: Kimi Linear's delta nets, whose decays have a bound and come of one matrix, and between them
// attention over latents with a gate for each head; sigmoid routing with a correction of the choice, shared experts,
// dense first layers.
var bailingmoe3 = Arch{
	Name: "bailingmoe3",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.ChannelDelta()
		k.BoundedDecays()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, false)
		k.LeadingDense()
		k.SharedExperts()
		k.ExpertLimitsApart()
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.DeltaOrLatents(LatentAttention{Gate: GateHead}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
