package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// kimiLinear is Kimi Linear: of four layers three have a delta net whose decays are of channels,
// and the fourth attention over latents, without rotations; experts as DeepSeek V3's.
var kimiLinear = Arch{
	Name: "kimi-linear",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.ChannelDelta()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, true)
		k.LeadingDense()
		k.SharedExperts()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.DeltaOrLatents(LatentAttention{}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
