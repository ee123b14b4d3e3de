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

// alibi reads whether scores fall with the distance.
func (k *keys) alibi() {
	const bias = "attention.max_alibi_bias"
	switch n := k.floatOr(bias, 0, 0, 1e3); n {
	case 0:
	case 8:
		k.c.ALiBi = true
	default:
		k.fail(bias, "%g is not supported, supported are 0 and 8", n)
	}
}

// clamp reads what queries, keys and values are held within; 0 is how some files say that they are not.
func (k *keys) clamp() { k.c.AttnLimit = float32(k.floatOr("attention.clamp_kqv", 0, 0, 1e6)) }
