package arch

import "github.com/quern-llm/quern/go/kernel"

// nemotron is Nemotron 3 of 2023 to Minitron: layer norms, a feed-forward without a gate
// whose function is the squared ReLU, part of each head rotated.
var nemotron = Arch{
	Name:   "nemotron",
	config: starcoder2.config,
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.ReLU2, plain: true}))
		})
		b.end("output_norm")
	},
}
