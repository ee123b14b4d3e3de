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

// boundedDecays reads the logarithm of the least decay.
func (k *keys) boundedDecays() {
	const safe = "kda.safe_gate"
	if !k.boolOr(safe, true) {
		k.fail(safe, "false: decays without a bound are not supported by %s", k.c.Arch)
	}
	const least = "kda.gate_lower_bound"
	if k.c.Delta.Least = float32(k.float(least, -100, 0)); k.c.Delta.Least == 0 {
		k.fail(least, "0, want less")
	}
}
