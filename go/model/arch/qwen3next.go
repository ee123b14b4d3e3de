package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen3next is Qwen 3 Next: what Qwen 3.5 with experts is, but its value heads lie by
// key heads.
var qwen3next = Arch{
	Name: "qwen3next",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertNorm = true
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
		k.deltaNets()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.deltaOrAttention(deltaNet{grouped: true}))
			l.residual("post_attention_norm", l.experts(experts{}), l.feedForward(feedForward{shared: true, gated: true}))
		})
		b.end("output_norm")
	},
}
