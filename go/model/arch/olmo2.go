package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// olmo2 is OLMo 2 and 3: norms after the sublayers and none before, queries and keys
// normalised over all heads. OLMo 3 has windows, and stretches only the rotations of
// the layers without.
var olmo2 = Arch{
	Name: "olmo2",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		if k.Has("attention.sliding_window") {
			k.Windows(AllBut(4))
		}
		for il := range k.Config.Layers {
			if l := &k.Config.Layers[il]; l.Window > 0 {
				l.Rope.Scaling = NoScaling
			}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("", l.Attention(Attention{QKNorm: NormRow, PostNorm: "post_attention_norm"}))
			l.Residual("", l.FeedForward(FeedForward{PostNorm: "post_ffw_norm"}))
		})
		b.End("output_norm")
	},
}
