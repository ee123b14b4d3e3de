package arch

import "github.com/quern-llm/quern/go/kernel"

// chatglm is ChatGLM 3, GLM 4 of 9B and GLM Edge: Llama with queries, keys and values in one matrix, gate and up in
// another, and half of each head rotated.
var chatglm = Arch{
	Name: "chatglm",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fused: true}))
		})
		b.end("output_norm")
	},
}
