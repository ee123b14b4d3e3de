package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// plamo3 is PLaMo 3: norms before and after each sublayer, in some models windows, whose rotations have a base of their
// own.
var plamo3 = Arch{
	Name: "plamo3",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		if k.Has("attention.sliding_window") {
			k.Windows(AllBut(8))
			k.WindowRope(10000)
		}
	},
	build: func(b *Builder) {
		b.Dense(Attention{QKNorm: NormHead, PostNorm: "post_attention_norm"},
			FeedForward{Fused: true, PostNorm: "post_ffw_norm"})
	},
}
