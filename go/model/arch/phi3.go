package arch

import "github.com/quern-llm/quern/go/kernel"

// phi3 is Phi 3, 3.5 and 4: queries, keys and values in one matrix, gate and up in another,
// factors for rotations in short and in long contexts. Models that name a window have it in
// all layers, as in the original; llama.cpp ignores it.
var phi3 = Arch{
	Name: "phi3",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		window := k.intOr("attention.sliding_window", 0, 0, maxCtx)
		for il := range k.c.Layers {
			k.c.Layers[il].Window = window
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{fused: true}))
		})
		b.end("output_norm")
	},
}
