package arch

// jais is Jais 1: ALiBi, norms with a mean, biases everywhere, SwiGLU; scores are divided by the width of a head,
// not by its root. The scales of embeddings and logits are in the weights.
var jais = Arch{
	Name: "jais",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.feedForward()
		k.alibi()
		for il := range k.c.Layers {
			l := &k.c.Layers[il]
			l.AttnScale = 1 / float32(max(l.HeadDim, 1))
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}
