package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// phimoe is Phi 3.5 with experts: norms with a mean, biases everywhere, factors for rotations in
// short and in long contexts, routing by SparseMixer. That is the original; llama.cpp computes
// RMS norms with a bias, and routes by a softmax whose two largest are made to sum to 1.
var phimoe = Arch{
	Name: "phimoe",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Config.Norm = kernel.LayerNorm
		k.Heads()
		k.Experts()
		k.Config.ExpertGating = kernel.GateMixer
		k.Rope(kernel.RopeNeox)
		phi3Windows(k)
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
