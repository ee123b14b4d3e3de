package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// jamba is Jamba: state spaces of the first kind, whose inputs are normalised, in most
// layers, attention without rotations in those with key-value heads, and experts in the
// layers that have a router.
var jamba = Arch{
	Name: "jamba",
	config: func(k *Keys) {
		k.RMSNorm()
		k.MixedHeads()
		k.FeedForward()
		k.Mamba()
		k.OptionalExperts()
		k.Config.ExpertGating = kernel.GateSoftmax
		k.RoutedLayers()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			if l.NHeadKV == 0 {
				l.Residual("attn_norm", l.Mamba(ScanNormWeighted))
			} else {
				l.Residual("attn_norm", l.Attention(Attention{}))
			}
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
