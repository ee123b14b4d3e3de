package arch

import "github.com/quern-llm/quern/go/kernel"

// cohere2 is Command R7B and A: Command R with a window and rotations in three
// layers of four, and neither in the fourth.
var cohere2 = Arch{
	Name: "cohere2",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		k.c.LogitScale = float32(k.floatOr("logit_scale", 1, 1e-6, 1e6))
		k.windows(allBut(4))
		k.ropeInWindows()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}), l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
