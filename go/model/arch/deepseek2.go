package arch

import "github.com/quern-llm/quern/go/kernel"

// deepseek2 is DeepSeek V2, V3 and R1, Kimi K2, GLM 4.7 Flash and others: attention over latents, dense
// first layers, then shared experts beside routed ones. V3 weighs these by sigmoids, with a
// correction of the choice, and a group of them counts for its two best; those before by
// softmax, and a group counts for its best.
var deepseek2 = Arch{
	Name: "deepseek2",
	config: func(k *keys) {
		deepseek2Config(k)
		k.c.GroupBest = k.c.ExpertGating == kernel.GateSoftmax // as in V2's code; llama.cpp adds two
		k.latentRope(true)
	},
	build: deepseek2Build,
}

// mistral4 is Mistral Small 4: deepseek2, whose queries grow with their position.
var mistral4 = Arch{
	Name: "mistral4",
	config: func(k *keys) {
		deepseek2Config(k)
		k.latentRope(false)
	},
	build: deepseek2Build,
}

// deepseek2Config is all but the rotations.
func deepseek2Config(k *keys) {
	k.rms()
	k.latents()
	k.feedForward()
	k.someExperts()
	gating := kernel.GateSoftmax
	if k.corrected() { // early files do not say it
		gating = kernel.GateSigmoid
	}
	k.expertWeights(gating, false)
	k.denseLead()
	k.sharedExperts()
	k.temperature("attention.temperature_length")
}

func deepseek2Build(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		l.residual("attn_norm", l.latentAttention(latent{}))
		l.mixture("ffn_norm", experts{})
	})
	b.end("output_norm")
}
