package arch

import "github.com/quern-llm/quern/go/kernel"

// exaone4 is EXAONE 4: norms after the sublayers and none before. The large ones have
// windows in three layers of four, and no rotations in the fourth.
var exaone4 = Arch{
	Name: "exaone4",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		if !k.has("attention.sliding_window") {
			return
		}
		k.windows(allBut(4))
		k.ropeInWindows()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("", l.attention(attention{norm: normHead, post: "post_attention_norm"}))
			l.residual("", l.feedForward(feedForward{post: "post_ffw_norm"}))
		})
		b.end("output_norm")
	},
}
