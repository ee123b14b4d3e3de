package arch

import "github.com/quern-llm/quern/go/kernel"

// minimaxm2 is MiniMax M2: queries and keys normalised as rows, half of each head rotated,
// sigmoid routing with a correction of the choice.
var minimaxm2 = Arch{
	Name: "minimax-m2",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, true)
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normRow}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
