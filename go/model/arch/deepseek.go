package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// deepseek is DeepSeek's first model with experts: Llama's attention, softmax routing, shared
// experts beside the routed ones, dense first layers.
var deepseek = Arch{
	Name: "deepseek",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Experts()
		k.LeadingDense()
		k.SharedExperts()
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
