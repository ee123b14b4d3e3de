package arch

import "github.com/quern-llm/quern/go/kernel"

// spark25 is Spark X2.5: windows in the layers that the file says, with rotations of their own, a gate for each head, GEGLU.
// Its GELU is the one with erf; llama.cpp takes the other.
var spark25 = Arch{
	Name: "spark2_5",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.listedWindows()
		k.rotatedInWindows(nil)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{gate: gateHead}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELUErf}))
		})
		b.end("output_norm")
	},
}
