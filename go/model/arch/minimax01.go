package arch

import "github.com/quern-llm/quern/go/kernel"

// minimax01 is MiniMax 01 and M1: seven layers of eight have linear attention whose heads decay by constants (lightning
// attention), the eighth softmax attention; experts. What a sublayer adds to is a multiple of its input, normalised.
var minimax01 = Arch{
	Name: "minimax-01",
	config: func(k *keys) {
		c := k.c
		k.rms()
		k.heads()
		k.experts()
		c.ExpertNorm = true
		k.rope(kernel.RopeNeox)
		c.NormedScale = float32(k.float("residual_scale", 1e-6, 1e6))
		for il, recurrent := range k.recurrent(8) {
			l := &c.Layers[il]
			if !recurrent {
				continue
			}
			if l.NHeadKV = 0; l.NHead&(l.NHead-1) != 0 || l.HeadDim%kernel.Panel != 0 {
				k.fail("attention.head_count", "%d heads of %d in layer %d, want a power of 2, and a multiple of %d", l.NHead, l.HeadDim, il, kernel.Panel)
			}
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			if l.NHeadKV == 0 {
				l.ontoNorm("attn_norm", l.lightning())
			} else {
				l.ontoNorm("attn_norm", l.attention(attention{}))
			}
			l.ontoNorm("ffn_norm", l.experts(experts{}))
		})
		b.end("output_norm")
	},
}
