package arch

import "github.com/quern-llm/quern/go/kernel"

// olmo2 is OLMo 2 and 3: norms after the sublayers and none before, queries and keys
// normalised over all heads. OLMo 3 has windows, and stretches only the rotations of
// the layers without.
var olmo2 = Arch{
	Name: "olmo2",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		if k.has("attention.sliding_window") {
			k.windows(allBut(4))
		}
		for il := range k.c.Layers {
			if l := &k.c.Layers[il]; l.Window > 0 {
				l.Rope.Scaling = noScaling
			}
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("", l.attention(attention{norm: normRow, post: "post_attention_norm"}))
			l.residual("", l.feedForward(feedForward{post: "post_ffw_norm"}))
		})
		b.end("output_norm")
	},
}
