package arch

import "github.com/quern-llm/quern/go/kernel"

// mimo2 is MiMo V2: windows in most layers, with other key-value heads and another base of rotations than the rest, in some
// a sink for each head; sigmoid routing with a correction of the choice in the layers that have a router.
var mimo2 = Arch{
	Name: "mimo2",
	config: func(k *keys) {
		k.withNext(func() {
			k.rms()
			k.heads()
			k.feedForward()
			k.experts()
			k.c.ExpertGating, k.c.ExpertNorm = kernel.GateSigmoid, true
			k.routed()
			k.rope(kernel.RopeNeox)
			k.windows(allBut(6))
			k.windowRope(10000)
		})
		k.c.NextRaw = true
		k.c.ValueScale = float32(k.floatOr("attention.value_scale", 0, 0, 1e6))
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{sinks: l.has("attn_sinks.weight")}))
			l.mixture("ffn_norm", experts{})
		})
		b.end("output_norm")
	},
}
