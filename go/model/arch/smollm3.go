package arch

import "github.com/quern-llm/quern/go/kernel"

// smollm3 is SmolLM 3: Llama, but every fourth layer has no rotations.
var smollm3 = Arch{
	Name: "smollm3",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		for il := 3; il < len(k.c.Layers); il += 4 {
			k.c.Layers[il].Rope = Rope{}
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
