package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// step35 is Step 3.5: windows in most layers, with more heads and another base of rotations than the rest, where half
// of what rope.dimension_count says is rotated; a gate for each head; sigmoid routing with a correction of the choice
// in the layers that have a router, in some with limits of what the function makes.
var step35 = Arch{
	Name: "step35",
	config: func(k *Keys) {
		k.WithNext(func() {
			k.RMSNorm()
			k.Heads()
			k.FeedForward()
			k.Experts()
			k.ExpertWeights(kernel.GateSigmoid, false)
			k.RoutedLayers()
			k.SharedExperts()
			k.ExpertLimitsApart()
			k.Rope(kernel.RopeNeox)
			k.ListedWindows()
			k.WindowRope(10000)
			k.RotatedInWindows(func(l *LayerConfig) {
				l.Rope.Of = l.Rope.NRot // factors are as many as layers with a window would have
				l.Rope.NRot /= 2
			})
		})
		k.Config.NextRaw = true
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			a := Attention{QKNorm: NormHeadOptional}
			if l.Has("attn_gate.weight") {
				a.Gate = GateHead
			}
			l.Residual("attn_norm", l.Attention(a))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
