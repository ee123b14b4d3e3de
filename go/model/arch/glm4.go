package arch

import "github.com/quern-llm/quern/go/kernel"

// glm4 is GLM 4: norms before and after each half, half of each head rotated, gate
// and up in one matrix.
var glm4 = Arch{
	Name: "glm4",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{post: "post_attention_norm"}))
			l.residual("ffn_norm", l.feedForward(feedForward{fused: true, post: "post_ffw_norm"}))
		})
		b.end("output_norm")
	},
}
