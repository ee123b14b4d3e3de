package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// smallthinker is SmallThinker: experts with ReLU, which are chosen before the attention, by the layer's input. The
// first layer of four sees all and has no rotations, where the file has windows.
var smallthinker = Arch{
	Name: "smallthinker",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertWeights(kernel.GateSoftmax, true)
		k.Rope(kernel.RopeNeox)
		if k.IntOr("attention.sliding_window", 0, 0, MaxCtx) > 0 {
			k.WindowsIn(AllButFirst(4), AllButFirst)
			k.RopeInWindows()
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.RouteAhead()
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.Experts(Experts{Fn: kernel.ReLU, RoutedAhead: true}))
		})
		b.End("output_norm")
	},
}
