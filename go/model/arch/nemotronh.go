package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// nemotronh is Nemotron H and Nemotron Nano 2: a layer is either attention without
// rotations, or a feed-forward without a gate, or a state space of the second kind.
var nemotronh = Arch{Name: "nemotron_h", config: nemotronhConfig, build: nemotronhBuild}

// nemotronhmoe is Nemotron 3: nemotronh with experts beside a shared one in place of the
// feed-forward, chosen by sigmoids and a correction, in the layers that have a router.
var nemotronhmoe = Arch{
	Name: "nemotron_h_moe",
	config: func(k *Keys) {
		nemotronhConfig(k)
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, true)
		k.RoutedLayers()
		k.SharedExperts()
		k.Config.NLatent = k.IntOr("moe_latent_size", 0, 0, MaxEmbd) // Nemotron 3 Super
	},
	build: nemotronhBuild,
}

func nemotronhConfig(k *Keys) {
	k.RMSNorm()
	k.MixedHeads()
	k.Each("feed_forward_length", 0, MaxFF, func(l *LayerConfig, n int) { l.NFF = n })
	k.Mamba2()
}

func nemotronhBuild(b *Builder) {
	b.Begin()
	b.Layers(func(l Layer) {
		switch {
		case l.NHeadKV > 0:
			l.Residual("attn_norm", l.Attention(Attention{}))
		case l.NFF == 0:
			l.Residual("attn_norm", l.Mamba2(false))
		default:
			l.Mixture("attn_norm", Experts{Fn: kernel.ReLU2, Ungated: true})
		}
	})
	b.End("output_norm")
}
