package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// kimiK3 is Kimi K3: Kimi Linear whose decays are bounded, with a gate for each channel of attention over latents too,
// experts between projections, whose gates are SiTU's everywhere, and sublayers that attend to the residuals of earlier
// blocks.
var kimiK3 = Arch{
	Name: "kimi-k3",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.ChannelDelta()
		k.Config.Delta.Signed = true
		if k.Has("kda.gate_lower_bound") {
			k.BoundedDecays()
		}
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, false)
		k.LeadingDense()
		k.SharedExperts()
		k.Config.NLatent = k.IntOr("expert_latent_length", 0, 0, MaxEmbd)
		k.Config.GateCap = float32(k.Float("activation.situ_beta", 1e-3, 1e6))
		k.Config.UpCap = float32(k.FloatOr("activation.situ_linear_beta", 0, 0, 1e6))
		k.AttnRes()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.AttnRes("attn_res_score", true)
			l.Residual("attn_norm", l.DeltaOrLatents(LatentAttention{Gate: GateChannel}))
			l.AttnRes("ffn_res_score", false)
			l.Mixture("ffn_norm", Experts{Fn: kernel.Sigmoid})
		})
		b.AttnResAll("output_res_score")
		b.End("output_norm")
	},
}
