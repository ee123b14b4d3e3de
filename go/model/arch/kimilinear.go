package arch

import "github.com/quern-llm/quern/go/kernel"

// kimiLinear is Kimi Linear: of four layers three have a delta net whose decays are of channels,
// and the fourth attention over latents, without rotations; experts as DeepSeek V3's.
var kimiLinear = Arch{
	Name: "kimi-linear",
	config: func(k *keys) {
		k.rms()
		k.latents()
		k.channelDelta()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, true)
		k.denseLead()
		k.sharedExperts()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.deltaOrLatents(latent{}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
