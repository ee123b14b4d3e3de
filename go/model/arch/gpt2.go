package arch

import "github.com/quern-llm/quern/go/kernel"

// gpt2 is GPT-2: learned positions, norms with a mean, biases everywhere, GELU without a gate.
var gpt2 = Arch{
	Name: "gpt2",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.c.Positions = true
	},
	build: func(b *builder) {
		b.begin(b.positions)
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, plain: true}))
		})
		b.end("output_norm")
	},
}

// starcoder is StarCoder 1, SantaCoder and other files of GPTBigCode: gpt2 with one key-value head.
var starcoder = Arch{Name: "starcoder", config: gpt2.config, build: gpt2.build}
