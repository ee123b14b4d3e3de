package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// hunyuanmoe is Hunyuan A13B: Hunyuan with routed experts and a shared one.
var hunyuanmoe = Arch{
	Name: "hunyuan-moe",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(true)
		k.SharedExperts()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormAfterRope}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
