package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// olmoe is OLMoE: queries and keys normalised over all heads, experts whose weights
// are those of the softmax over all.
var olmoe = Arch{
	Name: "olmoe",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(false)
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormRow}))
			l.Residual("ffn_norm", l.Experts(Experts{}))
		})
		b.End("output_norm")
	},
}
