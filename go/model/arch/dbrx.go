package arch

import "github.com/quern-llm/quern/go/kernel"

// dbrx is DBRX: norms with a mean, queries, keys and values within a limit, and experts whose weights sum to 1 behind a norm
// that files call that of the attention's output.
var dbrx = Arch{
	Name: "dbrx",
	config: func(k *keys) {
		k.layerNorm()
		k.heads()
		k.clamp()
		k.experts()
		k.c.ExpertNorm = true
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{}))
			l.mixture("attn_output_norm", experts{})
		})
		b.end("output_norm")
	},
}
