package arch

import "github.com/quern-llm/quern/go/kernel"

// smallthinker is SmallThinker: experts with ReLU, which are chosen before the attention, by the layer's input. The first layer
// of four sees all and has no rotations, where the file has windows.
var smallthinker = Arch{
	Name: "smallthinker",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.expertWeights(kernel.GateSoftmax, true)
		k.rope(kernel.RopeNeox)
		if k.intOr("attention.sliding_window", 0, 0, maxCtx) > 0 {
			k.windowsIn(allButFirst(4), allButFirst)
			k.ropeInWindows()
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.routeAhead()
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.experts(experts{fn: kernel.ReLU, ahead: true}))
		})
		b.end("output_norm")
	},
}
