package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma2 is Gemma 2: Gemma with norms before and after each sublayer, soft caps on
// scores and logits, and a window in every second layer.
var gemma2 = Arch{
	Name: "gemma2",
	config: func(k *Keys) {
		gemmaConfig(k)
		k.Config.AttnCap = float32(k.FloatOr("attn_logit_softcapping", 50, 0, MaxCap))
		k.Config.LogitCap = float32(k.FloatOr("final_logit_softcapping", 30, 0, MaxCap))
		// the first files do not say it
		k.WindowsOf(k.IntOr("attention.sliding_window", 4096, 1, MaxCtx), AllBut(2), AllBut)
	},
	build: func(b *Builder) {
		b.Dense(Attention{PostNorm: "post_attention_norm"}, FeedForward{Fn: kernel.GELU, PostNorm: "post_ffw_norm"})
	},
}

// gemmaConfig reads what Gemma 2 and 3 share. The largest of both scale queries by
// the width that heads would have if they made up the embedding.
func gemmaConfig(k *Keys) {
	k.Dense(kernel.RopeNeox)
	k.EmbedScale()
	if n := len(k.Config.Layers); n == 46 && k.Config.Arch == "gemma2" || n == 62 {
		for il := range k.Config.Layers {
			l := &k.Config.Layers[il]
			l.AttnScale = float32(1 / math.Sqrt(float64(k.Config.NEmbd/max(l.NHead, 1))))
		}
	}
	k.AttnScale()
}
