package arch

import "github.com/quern-llm/quern/go/kernel"

// falcon is Falcon 1 and 2: both sublayers side by side, in small models after the same norm, GELU
// with erf, as the original has, without a gate.
var falcon = Arch{
	Name:   "falcon",
	config: starcoder2.config,
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			a, f := l.attention(attention{}), l.feedForward(feedForward{fn: kernel.GELUErf, plain: true})
			if l.has("attn_norm_2.weight") {
				l.sideBySide("attn_norm_2", a, "attn_norm", f)
			} else {
				l.residual("attn_norm", a, f)
			}
		})
		b.end("output_norm")
	},
}
