package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gptneox is GPT-NeoX and Pythia: norms with a mean, biases everywhere, part of each head rotated,
// GELU with erf, as the original has, without a gate. Most have both sublayers side by side.
var gptneox = Arch{
	Name: "gptneox",
	config: func(k *Keys) {
		starcoder2.config(k)
		k.Config.Parallel = k.BoolOr("use_parallel_residual", true)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			a, f := l.Attention(Attention{}), l.FeedForward(FeedForward{Fn: kernel.GELUErf, Ungated: true})
			if b.Config.Parallel {
				l.SideBySide("attn_norm", a, "ffn_norm", f)
				return
			}
			l.Residual("attn_norm", a)
			l.Residual("ffn_norm", f)
		})
		b.End("output_norm")
	},
}
