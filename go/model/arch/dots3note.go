package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// dots3note is the part of dots3-note that reads and writes text: attention over latents with a gate for each head, to
// a window in most layers, whose latents have sizes of their own, and in the others to positions that an index chooses;
// sigmoid routing with a correction of the choice, shared experts, dense first layers. What is rotated of a key is
// normalised before. The index rotates neighbours too, as vLLM and transformers have it from the model's authors;
// llama.cpp rotates halves there, as DeepSeek V3.2's index does.
var dots3note = Arch{
	Name: "dots3note",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, false)
		k.LeadingDense()
		k.SharedExperts()
		k.Rope(kernel.RopeNorm)
		k.ListedWindows()
		k.Indexer(kernel.RopeNorm)
		k.WindowLatents()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.LatentAttention(LatentAttention{Gate: GateHead}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}
