package arch

import "github.com/quern-llm/quern/go/kernel"

// falconh1 is Falcon H1: attention and a state space of the second kind side by side in
// every layer. The file has the multipliers of its projections in their weights.
var falconh1 = Arch{
	Name: "falcon-h1",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.mamba2()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}), l.mamba2(true))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
