package arch

import "github.com/quern-llm/quern/go/kernel"

// mpt is MPT: ALiBi or learned positions, norms with a mean, GELU with erf, as the original has,
// without a gate; in some models norms of queries and keys.
var mpt = Arch{
	Name: "mpt",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.clamp()
		k.alibi()
		_, k.c.Positions = k.f.Tensor("position_embd.weight")
	},
	build: func(b *builder) {
		b.begin(b.positions)
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normRowMaybe}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELUErf, plain: true}))
		})
		b.end("output_norm")
	},
}
