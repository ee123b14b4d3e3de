package arch

import "github.com/quern-llm/quern/go/kernel"

// kimiK3 is Kimi K3: Kimi Linear whose decays are bounded, with a gate for each channel of attention over latents too,
// experts between projections, whose gates are SiTU's everywhere, and sublayers that attend to the residuals of earlier
// blocks.
var kimiK3 = Arch{
	Name: "kimi-k3",
	config: func(k *keys) {
		k.rms()
		k.latents()
		k.channelDelta()
		k.c.Delta.Signed = true
		if k.has("kda.gate_lower_bound") {
			k.boundedDecays()
		}
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		k.c.NLatent = k.intOr("expert_latent_length", 0, 0, maxEmbd)
		k.c.GateCap = float32(k.float("activation.situ_beta", 1e-3, 1e6))
		k.c.UpCap = float32(k.floatOr("activation.situ_linear_beta", 0, 0, 1e6))
		k.attnRes()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.attnRes("attn_res_score", true)
			l.residual("attn_norm", l.deltaOrLatents(latent{gate: gateOwn}))
			l.attnRes("ffn_res_score", false)
			l.mixture("ffn_norm", experts{fn: kernel.Sigmoid})
		})
		b.attnResAll("output_res_score")
		b.end("output_norm")
	},
}
