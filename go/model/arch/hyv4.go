package arch

import "github.com/quern-llm/quern/go/kernel"

// hyv4 is Hunyuan V4: a residual of several streams that are not mixed, attention over latents with sinks and a gate for each
// channel, in some files to the positions that an index chooses, as in GLM 5.2; dense first layers, sigmoid routing with a
// correction of the choice, limits of routed experts, a shared one.
var hyv4 = Arch{
	Name: "hy_v4",
	config: func(k *keys) {
		k.rms()
		k.latents()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		k.limitsOfRouted()
		k.hyperApart()
		k.rope(kernel.RopeNorm)
		if k.has("attention.indexer.top_k") {
			k.indexes(kernel.RopeNorm)
			k.c.Latent.Index.RopeAt = k.c.Latent.Index.Dim - k.c.Latent.RopeDim
			k.c.Latent.Index.Eps = k.c.Eps
			k.indexTypes()
		}
	},
	build: func(b *builder) {
		b.begin(b.split)
		b.layers(func(l layer) {
			l.connectApart("hc_attn", func() { l.residual("attn_norm", l.latentAttention(latent{gate: gateOwn, sinks: true})) })
			l.connectApart("hc_ffn", func() { l.mixture("ffn_norm", experts{}) })
		})
		b.join("output_hc")
		b.end("output_norm")
	},
}
