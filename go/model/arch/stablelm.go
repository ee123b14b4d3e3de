package arch

import "github.com/quern-llm/quern/go/kernel"

// stablelm is StableLM: norms with a mean. Large ones normalise each head of
// queries and keys, and have both sublayers read the same norm.
var stablelm = Arch{
	Name: "stablelm",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			a, f := l.attention(attention{norm: normEach}), l.feedForward(feedForward{})
			if l.has("ffn_norm.weight") {
				l.residual("attn_norm", a)
				l.residual("ffn_norm", f)
			} else {
				l.residual("attn_norm", a, f)
			}
		})
		b.end("output_norm")
	},
}
