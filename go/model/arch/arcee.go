package arch

import "github.com/quern-llm/quern/go/kernel"

// arcee is AFM: Llama with squared ReLU and no gate.
var arcee = Arch{
	Name: "arcee",
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
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.ReLU2, plain: true}))
		})
		b.end("output_norm")
	},
}
