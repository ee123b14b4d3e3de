package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen3 is Qwen 3: rotations across halves of a head, each head of queries and
// keys normalised first. Its heads may be wider than n_embd/n_head.
var qwen3 = Arch{
	Name: "qwen3",
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
