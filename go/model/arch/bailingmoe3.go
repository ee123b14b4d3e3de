package arch

import "github.com/quern-llm/quern/go/kernel"

// bailingmoe3 is Ling 3: Kimi Linear's delta nets, whose decays have a bound and come of one matrix, and between them attention over latents with
// a gate for each head; sigmoid routing with a correction of the choice, shared experts, dense first layers.
var bailingmoe3 = Arch{
	Name: "bailingmoe3",
	config: func(k *keys) {
		k.rms()
		k.latents()
		k.channelDelta()
		k.boundedDecays()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		k.limitsApart()
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.deltaOrLatents(latent{gate: gateHead}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
