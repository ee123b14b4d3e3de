package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// flexOlmo is FlexOlmo: OLMo 2 with experts, whose sum is normalised.
var flexOlmo = Arch{
	Name: "flex_olmo",
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
			l.Residual("", l.Attention(Attention{QKNorm: NormRow, PostNorm: "post_attention_norm"}))
			l.Mixture("", Experts{SumNorm: "post_ffw_norm"})
		})
		b.End("output_norm")
	},
}
