package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen3moe is Qwen 3 with experts in place of the feed-forward.
var qwen3moe = Arch{
	Name: "qwen3moe",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertNorm = true
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead}))
			l.residual("ffn_norm", l.experts(experts{}))
		})
		b.end("output_norm")
	},
}
