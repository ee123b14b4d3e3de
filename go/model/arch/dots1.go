package arch

import "github.com/quern-llm/quern/go/kernel"

// dots1 is dots.llm1: each head of queries and keys normalised, sigmoid routing with a
// correction of the choice, shared experts beside the routed ones, dense first layers.
var dots1 = Arch{
	Name: "dots1",
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
