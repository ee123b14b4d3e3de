package arch

import "github.com/quern-llm/quern/go/kernel"

// glm4moe is GLM 4.5 to 4.7: sigmoid routing with a correction of the choice, a shared expert
// beside the routed ones, dense first layers. The norm before the feed-forward is called
// post_attention_norm; the large ones normalise each head of queries and keys.
var glm4moe = Arch{
	Name: "glm4moe",
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
			l.residual("attn_norm", l.attention(attention{norm: normMaybe}))
			l.mixture("post_attention_norm", experts{gating: l.cfg.ExpertGating, renorm: l.cfg.ExpertNorm}, feedForward{})
		})
		b.end("output_norm")
	},
}
