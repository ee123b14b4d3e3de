package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen2moe is Qwen 1.5 and 2 with experts: Qwen 2 with routed experts, whose weights
// are the softmax over all as it is, and a shared one behind a gate.
var qwen2moe = Arch{
	Name: "qwen2moe",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(false)
		k.SharedExperts()
		k.DenseBesides()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Mixture("ffn_norm", Experts{SharedGate: true})
		})
		b.End("output_norm")
	},
}
