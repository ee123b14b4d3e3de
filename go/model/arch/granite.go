package arch

import "github.com/quern-llm/quern/go/kernel"

// granite is Granite 3: Llama with scales on embeddings, scores, what is added to
// the residual, and logits.
var granite = Arch{
	Name: "granite",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		k.c.EmbedScale = float32(k.floatOr("embedding_scale", 1, 1e-6, 1e6))
		k.c.ResidualScale = float32(k.floatOr("residual_scale", 1, 1e-6, 1e6))
		k.c.LogitScale = float32(1 / k.floatOr("logit_scale", 1, 1e-6, 1e6))
		if k.has("attention.scale") {
			scale := float32(k.float("attention.scale", 1e-6, 1e6))
			for il := range k.c.Layers {
				k.c.Layers[il].AttnScale = scale
			}
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
