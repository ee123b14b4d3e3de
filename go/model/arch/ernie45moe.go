package arch

import "github.com/quern-llm/quern/go/kernel"

// ernie45moe is ERNIE 4.5 with experts: softmax routing with a correction of the choice, dense
// first layers, shared experts in most.
var ernie45moe = Arch{
	Name: "ernie4_5-moe",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSoftmax, true)
		k.sparseEvery()
		k.denseLead()
		k.sharedExperts()
		k.rope(kernel.RopeNorm)
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
