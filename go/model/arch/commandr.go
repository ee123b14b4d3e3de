package arch

import "github.com/quern-llm/quern/go/kernel"

// commandr is Command R: both sublayers read the same norm, which has a mean and no
// bias; logits are scaled.
var commandr = Arch{
	Name: "command-r",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		k.c.LogitScale = float32(k.floatOr("logit_scale", 1, 1e-6, 1e6))
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normEach}), l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
