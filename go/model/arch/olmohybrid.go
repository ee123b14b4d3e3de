package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// olmoHybrid is OLMo Hybrid: of four layers three have a gated delta net and norms before the sublayers, and the fourth is
// as in OLMo 2, mostly without rotations.
var olmoHybrid = Arch{
	Name: "olmo_hybrid",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		if !k.Has("rope.freq_base") {
			k.NoRope()
		}
		k.DeltaNets()
		k.Config.LinearEps, k.Config.Delta.Eps = 1e-5, 1e-6
		k.Config.Delta.Beta = float32(k.FloatOr("quern.ssm.beta_scale", 1, 0, 2))
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			if l.NHeadKV == 0 {
				l.Residual("attn_norm", l.DeltaNet(DeltaNet{}))
				l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
				return
			}
			l.Residual("", l.Attention(Attention{QKNorm: NormRow, PostNorm: "post_attention_norm"}))
			l.Residual("", l.FeedForward(FeedForward{PostNorm: "post_ffw_norm"}))
		})
		b.End("output_norm")
	},
}
