package arch

import "github.com/quern-llm/quern/go/kernel"

// gptoss is gpt-oss: windows in every second layer, a sink for each head, biases everywhere, the
// softmax of the chosen experts' logits, and a gated function with limits. The norm before the
// experts is called post_attention_norm.
var gptoss = Arch{
	Name: "gpt-oss",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertGating = kernel.GateChosen
		k.rope(kernel.RopeNeox)
		k.windows(allBut(2))
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{bias: true, sinks: true}))
			l.mixture("post_attention_norm", experts{fn: kernel.SwiGLUClamp})
		})
		b.end("output_norm")
	},
}
