package arch

import "github.com/quern-llm/quern/go/kernel"

// hyv3 is Hunyuan V3: normalised queries and keys, dense first layers, then a shared expert beside routed ones, chosen by
// sigmoids with a correction.
var hyv3 = Arch{
	Name: "hy_v3",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.routed()
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
