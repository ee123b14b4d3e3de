package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// hyv3 is Hunyuan V3: normalised queries and keys, dense first layers, then a shared expert beside routed ones, chosen
// by sigmoids with a correction.
var hyv3 = Arch{
	Name: "hy_v3",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, false)
		k.RoutedLayers()
		k.SharedExperts()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
