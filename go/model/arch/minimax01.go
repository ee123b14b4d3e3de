package arch

import (
	"cmp"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// minimax01 is MiniMax 01 and M1: seven layers of eight have linear attention whose heads decay by constants (lightning
// attention), the eighth softmax attention; experts. What a sublayer adds to is a multiple of its input, normalised.
var minimax01 = Arch{
	Name: "minimax-01",
	config: func(k *Keys) {
		c := k.Config
		k.RMSNorm()
		k.Heads()
		k.Experts()
		c.ExpertNorm = true
		k.Rope(kernel.RopeNeox)
		c.NormedScale = float32(k.Float("residual_scale", 1e-6, 1e6))
		c.NormedLinear = float32(k.FloatOr("quern.residual_scale.linear", 0, 0, 1e6))
		c.NormedFF = float32(k.FloatOr("quern.residual_scale.feed_forward", 0, 0, 1e6))
		c.LinearEps = float32(k.FloatOr("quern.attention.linear_norm_epsilon", 0, 0, 1))
		if k.Has("attention.sliding_window") {
			k.Windows(func(int) bool { return true })
		}
		for il, recurrent := range k.RecurrentLayers(8) {
			l := &c.Layers[il]
			if !recurrent {
				continue
			}
			if l.NHeadKV = 0; l.NHead&(l.NHead-1) != 0 || l.HeadDim%kernel.Panel != 0 {
				k.Fail("attention.head_count", "%d heads of %d in layer %d, want a power of 2, and a multiple of %d",
					l.NHead, l.HeadDim, il, kernel.Panel)
			}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		all := b.Config.NormedScale
		linear, ff := cmp.Or(b.Config.NormedLinear, all), cmp.Or(b.Config.NormedFF, all)
		b.Layers(func(l Layer) {
			if l.NHeadKV == 0 {
				l.DeepNorm("attn_norm", linear, l.LightningAttention())
			} else {
				l.DeepNorm("attn_norm", all, l.Attention(Attention{}))
			}
			l.DeepNorm("ffn_norm", ff, l.Experts(Experts{}))
		})
		b.End("output_norm")
	},
}
