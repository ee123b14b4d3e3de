package arch

import "github.com/quern-llm/quern/go/kernel"

// hunyuan is Hunyuan without experts: Qwen 3 with the norms of queries and keys
// after the rotation.
var hunyuan = Arch{
	Name: "hunyuan-dense",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normAfter}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
