package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen3moe is Qwen 3 with experts in place of the feed-forward.
var qwen3moe = Arch{
	Name:   "qwen3moe",
	config: func(k *keys) { qwen3moeKeys(k, "rope.dimension_count") },
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead}))
			l.residual("ffn_norm", l.experts(experts{}))
		})
		b.end("output_norm")
	},
}

// qwen3moeKeys reads the sizes of such a model; a key gives the number of rotated dimensions.
func qwen3moeKeys(k *keys, rotated string) {
	k.rms()
	k.heads()
	k.experts()
	k.c.ExpertNorm = true
	k.ropeOver(kernel.RopeNeox, rotated)
}
