package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// mellum is Mellum 2: Qwen 3 with experts and windows in three layers of four, whose rotations are not stretched.
var mellum = Arch{
	Name: "mellum",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(true)
		k.Rope(kernel.RopeNeox)
		if !k.Has("attention.sliding_window") {
			return
		}
		k.Windows(AllBut(4))
		for il := range k.Config.Layers {
			if l := &k.Config.Layers[il]; l.Window > 0 {
				l.Rope.Scaling = NoScaling
			}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead}))
			l.Residual("ffn_norm", l.Experts(Experts{}))
		})
		b.End("output_norm")
	},
}
