package arch

import "github.com/quern-llm/quern/go/kernel"

// olmoe is OLMoE: queries and keys normalised over all heads, experts whose weights
// are those of the softmax over all.
var olmoe = Arch{
	Name: "olmoe",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normRow}))
			l.residual("ffn_norm", l.experts(experts{}))
		})
		b.end("output_norm")
	},
}
