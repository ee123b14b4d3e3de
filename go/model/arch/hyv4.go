package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// hyv4 is Hunyuan V4: a residual of several streams that are not mixed, attention over latents with sinks and a gate
// for each channel, in some files to the positions that an index chooses, as in GLM 5.2; dense first layers, sigmoid
// routing with a correction of the choice, limits of routed experts, a shared one.
var hyv4 = Arch{
	Name: "hy_v4",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, false)
		k.LeadingDense()
		k.SharedExperts()
		k.RoutedExpertLimits()
		k.HyperConnectionsApart()
		k.Rope(kernel.RopeNorm)
		if k.Has("attention.indexer.top_k") {
			k.Indexer(kernel.RopeNorm)
			k.Config.Latent.Index.RopeAt = k.Config.Latent.Index.Dim - k.Config.Latent.RopeDim
			k.Config.Latent.Index.Eps = k.Config.Eps
			k.IndexerTypes()
		}
	},
	build: func(b *Builder) {
		b.Begin(b.Split)
		b.Layers(func(l Layer) {
			l.ConnectApart("hc_attn", func() {
				l.Residual("attn_norm",
					l.LatentAttention(LatentAttention{Gate: GateChannel, Sinks: true}))
			})
			l.ConnectApart("hc_ffn", func() { l.Mixture("ffn_norm", Experts{}) })
		})
		b.Join("output_hc")
		b.End("output_norm")
	},
}
