package arch

import "github.com/quern-llm/quern/go/kernel"

// glm4 is GLM 4: norms before and after each sublayer, half of each head rotated, gate
// and up in one matrix.
var glm4 = Arch{
	Name: "glm4",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		style := kernel.RopeNorm
		if sections(k) { // GLM 4.1V, whose text has all sections at the same position
			style = kernel.RopeNeox
		}
		k.rope(style)
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

// sections reports whether rotations have sections for time, height and width.
func sections(k *keys) bool {
	all, err := k.f.Ints(k.name("rope.dimension_sections"))
	return err == nil && len(all) > 1 && all[0] > 0 && all[1] > 0
}
