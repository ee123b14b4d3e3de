package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// glm4 is GLM 4: norms before and after each sublayer, half of each head rotated, gate
// and up in one matrix.
var glm4 = Arch{
	Name: "glm4",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		style := kernel.RopeNorm
		if sections(k) { // GLM 4.1V
			style = kernel.RopeNeox
		}
		k.Rope(style)
		if style == kernel.RopeNeox {
			k.Sections(false)
		}
	},
	build: func(b *Builder) {
		b.Dense(Attention{PostNorm: "post_attention_norm"}, FeedForward{Fused: true, PostNorm: "post_ffw_norm"})
	},
}

// sections reports whether rotations have sections for time, height and width.
func sections(k *Keys) bool {
	all, err := k.File.Ints(k.Name("rope.dimension_sections"))
	return err == nil && len(all) > 1 && all[0] > 0 && all[1] > 0
}
