package arch

import "github.com/quern-llm/quern/go/kernel"

// phimoe is Phi 3.5 with experts: norms with a mean, biases everywhere, factors for rotations in
// short and in long contexts, routing by SparseMixer. That is the original; llama.cpp computes
// RMS norms with a bias, and routes by a softmax whose two largest are made to sum to 1.
var phimoe = Arch{
	Name: "phimoe",
	config: func(k *keys) {
		k.rms()
		k.c.Norm = kernel.LayerNorm
		k.heads()
		k.experts()
		k.c.ExpertGating = kernel.GateMixer
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
