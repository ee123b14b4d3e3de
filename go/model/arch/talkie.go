package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// talkie is Talkie: norms have no weights, heads of queries have a gain each, and each layer adds a multiple of the
// normalised embedding. Heads are normalised after the rotation, which keeps lengths: before it that is the same.
var talkie = Arch{
	Name: "talkie",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.Config.BareNorms, k.Config.EmbedNorm = true, true
		k.Config.LogitScale = float32(k.Float("logit_scale", 1e-6, 1e6))
		for _, l := range k.Config.Layers {
			if l.Rope.Scale() != 1 {
				k.Fail("rope.scaling.type", "rotations that change lengths, by %v, are not supported", l.Rope.Scale())
			}
		}
	},
	build: func(b *Builder) {
		c := b.Config
		again := b.Floats("embedding", kernel.TokRows, c.NEmbd)
		b.Begin(func() {
			b.Add(kernel.NormRows{
				Dst: again, Src: b.X(), Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			})
		})
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormGain}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
			l.Add(kernel.NormRows{
				Dst: b.X(), Src: again, Cols: c.NEmbd, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Epilogue: kernel.Add,
				Weight: l.Repeated("layer_output_scale.weight", 1, c.NEmbd),
			})
		})
		b.End("output_norm")
	},
}
