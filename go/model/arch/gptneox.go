package arch

import "github.com/quern-llm/quern/go/kernel"

// gptneox is GPT-NeoX and Pythia: norms with a mean, biases everywhere, part of each head rotated,
// GELU with erf, as the original has, without a gate. Most have both sublayers side by side.
var gptneox = Arch{
	Name: "gptneox",
	config: func(k *keys) {
		starcoder2.config(k)
		k.c.Parallel = k.boolOr("use_parallel_residual", true)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			a, f := l.attention(attention{}), l.feedForward(feedForward{fn: kernel.GELUErf, plain: true})
			if b.cfg.Parallel {
				l.sideBySide("attn_norm", a, "ffn_norm", f)
				return
			}
			l.residual("attn_norm", a)
			l.residual("ffn_norm", f)
		})
		b.end("output_norm")
	},
}
