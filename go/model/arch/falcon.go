package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// falcon is Falcon 1 and 2: both sublayers side by side, in small models after the same norm, GELU
// with erf, as the original has, without a gate.
var falcon = Arch{
	Name:   "falcon",
	config: starcoder2.config,
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			a, f := l.Attention(Attention{}), l.FeedForward(FeedForward{Fn: kernel.GELUErf, Ungated: true})
			if l.Has("attn_norm_2.weight") {
				l.SideBySide("attn_norm_2", a, "attn_norm", f)
			} else {
				l.Residual("attn_norm", a, f)
			}
		})
		b.End("output_norm")
	},
}
