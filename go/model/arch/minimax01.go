package arch

import (
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
		b.Layers(func(l Layer) {
			if l.NHeadKV == 0 {
				l.DeepNorm("attn_norm", l.LightningAttention())
			} else {
				l.DeepNorm("attn_norm", l.Attention(Attention{}))
			}
			l.DeepNorm("ffn_norm", l.Experts(Experts{}))
		})
		b.End("output_norm")
	},
}
