package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// exaone4 is EXAONE 4: norms after the sublayers and none before. The large ones have
// windows in three layers of four, and no rotations in the fourth.
var exaone4 = Arch{
	Name: "exaone4",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		if !k.Has("attention.sliding_window") {
			return
		}
		k.Windows(AllBut(4))
		k.RopeInWindows()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("", l.Attention(Attention{QKNorm: NormHead, PostNorm: "post_attention_norm"}))
			l.Residual("", l.FeedForward(FeedForward{PostNorm: "post_ffw_norm"}))
		})
		b.End("output_norm")
	},
}
