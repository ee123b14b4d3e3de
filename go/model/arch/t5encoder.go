package arch

import "github.com/quern-llm/quern/go/kernel"

// t5Encoder is the encoder of T5 1.1: RMS norms before the halves, GeGLU, scores that are not scaled
// and have biases by distance.
var t5Encoder = Arch{
	Name: "t5encoder",
	config: func(k *keys) {
		k.c.BothWays = true
		k.rms()
		k.heads()
		k.feedForward()
		k.c.NBucket = k.int("attention.relative_buckets_count", 4, maxHead)
		for il := range k.c.Layers {
			k.c.Layers[il].AttnScale = 1
		}
	},
	build: func(b *builder) {
		b.stem = "enc."
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{out: "attn_o"}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU}))
		})
		b.vectors("enc.output_norm")
	},
}
