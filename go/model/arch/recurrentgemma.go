package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// recurrentGemma is RecurrentGemma (Griffin): of three layers two have recurrent units, and the third attention in a
// window; feed-forwards as Gemma's, with biases.
var recurrentGemma = Arch{
	Name: "recurrent_gemma",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.EmbedScale()
		k.Config.LogitCap = float32(k.FloatOr("final_logit_softcapping", 30, 0, MaxCap))
		k.Windows(func(int) bool { return true })
		k.RecurrentUnits()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			if l.NHeadKV == 0 {
				l.Residual("attn_norm", l.RecurrentUnit())
			} else {
				l.Residual("attn_norm", l.Attention(Attention{}))
			}
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU}))
		})
		b.End("output_norm")
	},
}
