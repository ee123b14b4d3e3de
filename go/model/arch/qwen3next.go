package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen3next is Qwen 3 Next: what Qwen 3.5 with experts is, but its value heads lie by
// key heads.
var qwen3next = Arch{
	Name: "qwen3next",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(true)
		k.SharedExperts()
		k.DenseBesides()
		k.Rope(kernel.RopeNeox)
		k.DeltaNets()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.DeltaOrAttention(DeltaNet{Grouped: true}))
			l.Mixture("post_attention_norm", Experts{SharedGate: true})
		})
		b.End("output_norm")
	},
}
