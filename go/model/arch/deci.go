package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// deci is Llama Nemotron of 49B, 51B and 253B, and DeciLM: Llama whose layers differ, in the width of their sublayers,
// and in whether they have them; in some a matrix is in place of attention.
var deci = Arch{
	Name: "deci",
	config: func(k *Keys) {
		k.RMSNorm()
		k.MixedHeads()
		k.Each("feed_forward_length", 0, MaxFF, func(l *LayerConfig, n int) { l.NFF = n })
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			switch {
			case l.NHeadKV > 0:
				l.Residual("attn_norm", l.Attention(Attention{}))
			case l.NHead > 0:
				l.Residual("attn_norm", l.Linear("attn_output"))
			}
			if l.NFF > 0 {
				l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
			}
		})
		b.End("output_norm")
	},
}
