package arch

import "github.com/quern-llm/quern/go/kernel"

// chameleon is Chameleon's part that reads and writes text: each head of queries and keys normalised by a norm with a
// mean, weights of its own and biases. Tokens of images are never said. The larger one has norms behind the sublayers
// instead of before them, as in transformers; llama.cpp gives its feed-forward the result of the attention alone.
var chameleon = Arch{
	Name: "chameleon",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		k.c.Behind = k.boolOr("swin_norm", false)
		k.c.Unsaid = [2]int{4, 8196}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			if l.cfg.Behind {
				l.residual("", l.attention(attention{norm: normMean, post: "attn_norm"}))
				l.residual("", l.feedForward(feedForward{post: "ffn_norm"}))
				return
			}
			l.residual("attn_norm", l.attention(attention{norm: normMean}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
