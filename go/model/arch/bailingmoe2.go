package arch

import "github.com/quern-llm/quern/go/kernel"

// bailingmoe2 is Ling and Ring 2: dots1 with groups of experts, of which a token uses those in
// the best ones, and half of each head rotated.
var bailingmoe2 = Arch{
	Name: "bailingmoe2",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, true)
		k.denseLead()
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead}))
			l.mixture("ffn_norm", experts{gating: l.cfg.ExpertGating, renorm: l.cfg.ExpertNorm}, feedForward{})
		})
		b.end("output_norm")
	},
}
