package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen3vl is the text part of Qwen 3 VL. Its rotations have sections for time,
// height and width, which text has at the same position: they are plain ones.
var qwen3vl = Arch{
	Name: "qwen3vl",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}

// qwen3vlmoe is the text part of Qwen 3 VL with experts.
var qwen3vlmoe = Arch{Name: "qwen3vlmoe", config: qwen3moe.config, build: qwen3moe.build}
