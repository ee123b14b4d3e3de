package arch

import "github.com/quern-llm/quern/go/kernel"

// seedoss is Seed-OSS: Qwen 2 with wider heads; the norm before the feed-forward
// is called post_attention_norm.
var seedoss = Arch{
	Name: "seed_oss",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{bias: true}))
			l.residual("post_attention_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
