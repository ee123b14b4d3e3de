package arch

import "github.com/quern-llm/quern/go/kernel"

// deepseek is DeepSeek's first model with experts: Llama's attention, softmax routing, shared
// experts beside the routed ones, dense first layers.
var deepseek = Arch{
	Name: "deepseek",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.experts()
		k.denseLead()
		k.sharedExperts()
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
