package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// ernie45moe is ERNIE 4.5 with experts: softmax routing with a correction of the choice, dense
// first layers, shared experts in most.
var ernie45moe = Arch{
	Name: "ernie4_5-moe",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSoftmax, true)
		k.InterleavedExperts()
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
