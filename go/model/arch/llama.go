package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// llama is Llama 1 to 3, Mistral, Mixtral and everything that is stored as
// them: rotations of neighbours, biases where the file has them, dense or with
// experts.
var llama = Arch{
	Name: "llama",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		if k.OptionalExperts(); k.Config.NExpert == 0 {
			k.FeedForward()
		}
		k.ExpertNorm(true)
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(llamaLayer)
		b.End("output_norm")
	},
}

func llamaLayer(l Layer) {
	l.Residual("attn_norm", l.Attention(Attention{}))
	l.Mixture("ffn_norm", Experts{})
}
