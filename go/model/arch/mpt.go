package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// mpt is MPT: ALiBi or learned positions, norms with a mean, GELU with erf, as the original has,
// without a gate; in some models norms of queries and keys.
var mpt = Arch{
	Name: "mpt",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.ClampQKV()
		k.ALiBi()
		_, k.Config.Positions = k.File.Tensor("position_embd.weight")
	},
	build: func(b *Builder) {
		b.Begin(b.Positions)
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormRowOptional}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELUErf, Ungated: true}))
		})
		b.End("output_norm")
	},
}
