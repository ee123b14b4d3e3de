package arch

import "github.com/quern-llm/quern/go/kernel"

// nemotronh is Nemotron H and Nemotron Nano 2: a layer is either attention without
// rotations, or a feed-forward without a gate, or a state space of the second kind.
var nemotronh = Arch{Name: "nemotron_h", config: nemotronhConfig, build: nemotronhBuild}

// nemotronhmoe is Nemotron 3: nemotronh with experts beside a shared one in place of the
// feed-forward, chosen by sigmoids and a correction.
var nemotronhmoe = Arch{
	Name: "nemotron_h_moe",
	config: func(k *keys) {
		nemotronhConfig(k)
		k.experts()
		k.expertWeights(kernel.GateSigmoid, true)
		k.sharedExperts()
		k.c.NLatent = k.intOr("moe_latent_size", 0, 0, maxEmbd) // Nemotron 3 Super
	},
	build: nemotronhBuild,
}

func nemotronhConfig(k *keys) {
	k.rms()
	k.mixedHeads()
	k.each("feed_forward_length", 0, maxFF, func(l *Layer, n int) { l.NFF = n })
	k.mamba2()
}

func nemotronhBuild(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		switch {
		case l.NHeadKV > 0:
			l.residual("attn_norm", l.attention(attention{}))
		case l.NFF == 0:
			l.residual("attn_norm", l.mamba2(false))
		default:
			l.mixture("attn_norm", experts{fn: kernel.ReLU2, plain: true})
		}
	})
	b.end("output_norm")
}
