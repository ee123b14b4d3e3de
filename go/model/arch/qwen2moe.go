package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen2moe is Qwen 1.5 and 2 with experts: Qwen 2 with routed experts, whose weights
// are the softmax over all as it is, and a shared one behind a gate.
var qwen2moe = Arch{
	Name: "qwen2moe",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{bias: true}))
			l.residual("ffn_norm", l.experts(experts{}), l.feedForward(feedForward{shared: true, gated: true}))
		})
		b.end("output_norm")
	},
}
