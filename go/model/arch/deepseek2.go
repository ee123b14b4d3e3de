package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// deepseek2 is DeepSeek V2, V3 and R1, Kimi K2, GLM 4.7 Flash and others: attention over latents, dense
// first layers, then shared experts beside routed ones. V3 weighs these by sigmoids, with a
// correction of the choice, and a group of them counts for its two best; those before by
// softmax, and a group counts for its best.
var deepseek2 = Arch{
	Name: "deepseek2",
	config: func(k *Keys) {
		deepseek2Config(k)
		k.Config.GroupBest = k.Config.ExpertGating == kernel.GateSoftmax // as in V2's code; llama.cpp adds two
		k.LatentRope(true)
	},
	build: deepseek2Build,
}

// mistral4 is Mistral Small 4: deepseek2, whose queries grow with their position.
var mistral4 = Arch{
	Name: "mistral4",
	config: func(k *Keys) {
		deepseek2Config(k)
		k.LatentRope(false)
	},
	build: deepseek2Build,
}

// deepseek2Config is all but the rotations.
func deepseek2Config(k *Keys) {
	k.RMSNorm()
	k.Latents()
	k.FeedForward()
	k.OptionalExperts()
	gating := kernel.GateSoftmax
	if k.HasExpertBias() { // early files do not say it
		gating = kernel.GateSigmoid
	}
	k.ExpertWeights(gating, false)
	k.LeadingDense()
	k.SharedExperts()
	k.Temperature("attention.temperature_length")
}

func deepseek2Build(b *Builder) {
	b.Begin()
	b.Layers(func(l Layer) {
		l.Residual("attn_norm", l.LatentAttention(LatentAttention{}))
		l.Mixture("ffn_norm", Experts{})
	})
	b.End("output_norm")
}
