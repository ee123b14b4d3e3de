package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen35moe is Qwen 3.5 to 3.8 with routed experts and a shared one behind a gate in
// place of the feed-forward: see qwen35.
var qwen35moe = Arch{
	Name: "qwen35moe",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertNorm = true
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
		k.textSections()
		k.deltaNets()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.deltaOrAttention(deltaNet{}))
			l.residual("post_attention_norm", l.experts(experts{}), l.feedForward(feedForward{shared: true, gated: true}))
		})
		b.end("output_norm")
	},
}
