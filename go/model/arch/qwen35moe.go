package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen35moe is Qwen 3.5 to 3.8 with routed experts and a shared one behind a gate in
// place of the feed-forward: see qwen35.
var qwen35moe = Arch{
	Name: "qwen35moe",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(true)
		k.SharedExperts()
		k.Rope(kernel.RopeNeox)
		k.Sections(true)
		k.DeltaNets()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.DeltaOrAttention(DeltaNet{}))
			l.Residual("post_attention_norm", l.Experts(Experts{}),
				l.FeedForward(FeedForward{Shared: true, SharedGate: true}))
		})
		b.End("output_norm")
	},
}
