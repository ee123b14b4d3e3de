package arch

import "github.com/quern-llm/quern/go/kernel"

// arctic is Snowflake Arctic: Llama with a small dense feed-forward, and beside both sublayers experts, which read a
// norm of the layer's input.
var arctic = Arch{
	Name: "arctic",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.experts()
		k.c.ExpertNorm = true
		for il := range k.c.Layers { // the key is of experts
			k.c.Layers[il].NFF = k.c.NEmbd
		}
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			e := l.experts(experts{})
			act := l.act("embd beside", kernel.TokRows, b.cfg.NEmbd, e.in...)
			l.add(l.norm(act, l.x(), kernel.TokRows, "ffn_norm_exps"))
			l.residual("attn_norm", l.attention(attention{}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
			e.run(act)
		})
		b.end("output_norm")
	},
}
