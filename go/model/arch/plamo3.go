package arch

import "github.com/quern-llm/quern/go/kernel"

// plamo3 is PLaMo 3: norms before and after each sublayer, in some models windows, whose rotations have a base of their
// own.
var plamo3 = Arch{
	Name: "plamo3",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		if k.has("attention.sliding_window") {
			k.windows(allBut(8))
			k.windowRope(10000)
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead, post: "post_attention_norm"}))
			l.residual("ffn_norm", l.feedForward(feedForward{fused: true, post: "post_ffw_norm"}))
		})
		b.end("output_norm")
	},
}
