package arch

import "github.com/quern-llm/quern/go/kernel"

// llama is Llama 1 to 3, Mistral, Mixtral and everything that is stored as
// them: rotations of neighbours, biases where the file has them, dense or with
// experts.
var llama = Arch{
	Name: "llama",
	config: func(k *keys) {
		k.rms()
		k.heads()
		if k.someExperts(); k.c.NExpert == 0 {
			k.feedForward()
		}
		k.c.ExpertNorm = true
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(llamaLayer)
		b.end("output_norm")
	},
}

func llamaLayer(l layer) {
	l.residual("attn_norm", l.attention(attention{}))
	l.mixture("ffn_norm", experts{})
}
