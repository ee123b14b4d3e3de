package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// falcon is Falcon 1 and 2: both sublayers side by side, in small models after the same norm, GELU
// with erf, as the original has, without a gate. Falcon RW has one after the other, and ALiBi in place of rotations.
var falcon = Arch{
	Name: "falcon",
	config: func(k *Keys) {
		starcoder2.config(k)
		k.Config.Parallel = k.BoolOr("use_parallel_residual", true)
		if k.ALiBi(); k.Config.ALiBi {
			k.Config.ALiBiScaled = true
			k.NoRope()
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			a, f := l.Attention(Attention{}), l.FeedForward(FeedForward{Fn: kernel.GELUErf, Ungated: true})
			switch {
			case !b.Config.Parallel:
				l.Residual("attn_norm", a)
				l.Residual("ffn_norm", f)
			case l.Has("attn_norm_2.weight"):
				l.SideBySide("attn_norm_2", a, "attn_norm", f)
			default:
				l.Residual("attn_norm", a, f)
			}
		})
		b.End("output_norm")
	},
}
