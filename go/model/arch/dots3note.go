package arch

import "github.com/quern-llm/quern/go/kernel"

// dots3note is the part of dots3-note that reads and writes text: attention over latents with a gate for each head, to a window in most layers, whose
// latents have sizes of their own, and in the others to positions that an index chooses; sigmoid routing with a correction of the choice,
// shared experts, dense first layers. What is rotated of a key is normalised before.
var dots3note = Arch{
	Name: "dots3note",
	config: func(k *keys) {
		k.rms()
		k.latents()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		k.rope(kernel.RopeNorm)
		k.listedWindows()
		k.indexes(kernel.RopeNeox)
		k.windowLatents()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.latentAttention(latent{gate: gateHead}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
