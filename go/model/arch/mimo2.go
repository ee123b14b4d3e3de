package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// mimo2 is MiMo V2: windows in most layers, with other key-value heads and another base of rotations than the rest, in
// some a sink for each head; sigmoid routing with a correction of the choice in the layers that have a router.
var mimo2 = Arch{
	Name: "mimo2",
	config: func(k *Keys) {
		k.WithNext(func() {
			k.RMSNorm()
			k.Heads()
			k.FeedForward()
			k.Experts()
			k.Config.ExpertGating, k.Config.ExpertNorm = kernel.GateSigmoid, true
			k.RoutedLayers()
			k.Rope(kernel.RopeNeox)
			k.Windows(AllBut(6))
			k.WindowRope(10000)
		})
		k.Config.NextRaw = true
		k.Config.ValueScale = float32(k.FloatOr("attention.value_scale", 0, 0, 1e6))
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{Sinks: l.Has("attn_sinks.weight")}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
