package arch

import "github.com/quern-llm/quern/go/kernel"

// talkie is Talkie: norms have no weights, heads of queries have a gain each, and each layer adds a multiple of the normalised
// embedding. Heads are normalised after the rotation, which keeps lengths: before it that is the same.
var talkie = Arch{
	Name: "talkie",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.c.BareNorms, k.c.EmbedNorm = true, true
		k.c.LogitScale = float32(k.float("logit_scale", 1e-6, 1e6))
		for _, l := range k.c.Layers {
			if l.Rope.Scale() != 1 {
				k.fail("rope.scaling.type", "rotations that change lengths, by %v, are not supported", l.Rope.Scale())
			}
		}
	},
	build: func(b *builder) {
		c := b.cfg
		again := b.floats("embedding", kernel.TokRows, c.NEmbd)
		b.begin(func() {
			b.add(kernel.NormRows{Dst: again, Src: b.x(), Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1})
		})
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normGain}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
			l.add(kernel.NormRows{
				Dst: b.x(), Src: again, Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
				Weight: l.repeated("layer_output_scale.weight", 1, c.NEmbd),
			})
		})
		b.end("output_norm")
	},
}
