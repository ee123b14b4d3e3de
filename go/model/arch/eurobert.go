package arch

import "github.com/quern-llm/quern/go/kernel"

// eurobert is EuroBERT: Llama that reads in both directions, with rotations across halves of a head.
var eurobert = Arch{
	Name: "eurobert",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.c.BothWays = true
	},
	build: llamaEmbed.build,
}

// neoBERT is NeoBERT: the same with rotations of neighbours, and gate and up in one matrix.
var neoBERT = Arch{
	Name: "neo-bert",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		k.c.BothWays = true
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fused: true}))
		})
		b.vectors("enc.output_norm")
	},
}
