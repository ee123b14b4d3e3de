package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gpt2 is GPT-2: learned positions, norms with a mean, biases everywhere, GELU without a gate.
var gpt2 = Arch{
	Name: "gpt2",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Config.Positions = true
	},
	build: func(b *Builder) {
		b.Begin(b.Positions)
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, Ungated: true}))
		})
		b.End("output_norm")
	},
}

// starcoder is StarCoder 1, SantaCoder and other files of GPTBigCode: gpt2 with one key-value head.
var starcoder = Arch{Name: "starcoder", config: gpt2.config, build: gpt2.build}
