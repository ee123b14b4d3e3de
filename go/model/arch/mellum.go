package arch

import "github.com/quern-llm/quern/go/kernel"

// mellum is Mellum 2: Qwen 3 with experts and windows in three layers of four, whose rotations are not stretched.
var mellum = Arch{
	Name: "mellum",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertNorm = true
		k.rope(kernel.RopeNeox)
		if !k.has("attention.sliding_window") {
			return
		}
		k.windows(allBut(4))
		for il := range k.c.Layers {
			if l := &k.c.Layers[il]; l.Window > 0 {
				l.Rope.Scaling = noScaling
			}
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead}))
			l.residual("ffn_norm", l.experts(experts{}))
		})
		b.end("output_norm")
	},
}
