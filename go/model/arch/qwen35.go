package arch

import "github.com/quern-llm/quern/go/kernel"

// qwen35 is Qwen 3.5 to 3.8: gated delta nets in most layers, in every fourth attention
// whose queries come with a gate.
var qwen35 = Arch{
	Name: "qwen35",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.textSections()
		k.deltaNets()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.deltaOrAttention(deltaNet{}))
			l.residual("post_attention_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
