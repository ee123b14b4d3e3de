package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen35 is Qwen 3.5 to 3.8: gated delta nets in most layers, in every fourth attention
// whose queries come with a gate.
var qwen35 = Arch{
	Name: "qwen35",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.Sections(true)
		k.DeltaNets()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.DeltaOrAttention(DeltaNet{}))
			l.Residual("post_attention_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
