package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen3vl is the text part of Qwen 3 VL. Its rotations have sections for time,
// height and width, which text has at the same position: they are plain ones.
var qwen3vl = Arch{
	Name: "qwen3vl",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}

// qwen3vlmoe is the text part of Qwen 3 VL with experts.
var qwen3vlmoe = Arch{Name: "qwen3vlmoe", config: qwen3moe.config, build: qwen3moe.build}
