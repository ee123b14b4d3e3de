package arch

import "github.com/quern-llm/quern/go/kernel"

// hunyuanmoe is Hunyuan A13B: Hunyuan with routed experts and a shared one.
var hunyuanmoe = Arch{
	Name: "hunyuan-moe",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertNorm = true
		k.sharedExperts()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normAfter}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
