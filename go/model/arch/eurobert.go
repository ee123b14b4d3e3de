package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// eurobert is EuroBERT: Llama that reads in both directions, with rotations across halves of a head.
var eurobert = Arch{
	Name: "eurobert",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.Config.BothWays = true
	},
	build: llamaEmbed.build,
}

// neoBERT is NeoBERT: the same with rotations of neighbours, and gate and up in one matrix.
var neoBERT = Arch{
	Name: "neo-bert",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNorm)
		k.Config.BothWays = true
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fused: true}))
		})
		b.Vectors("enc.output_norm")
	},
}
