package arch

import . "github.com/quern-llm/quern/go/model/nn"

// jais is Jais 1: ALiBi, norms with a mean, biases everywhere, SwiGLU; scores are divided by the width of a head,
// not by its root. The scales of embeddings and logits are in the weights.
var jais = Arch{
	Name: "jais",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.ALiBi()
		for il := range k.Config.Layers {
			l := &k.Config.Layers[il]
			l.AttnScale = 1 / float32(max(l.HeadDim, 1))
		}
	},
	build: func(b *Builder) { b.Dense(Attention{}, FeedForward{}) },
}
