package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// gemma2 is Gemma 2: Gemma with norms before and after each sublayer, soft caps on
// scores and logits, and a window in every second layer.
var gemma2 = Arch{
	Name: "gemma2",
	config: func(k *keys) {
		gemmaConfig(k)
		k.c.AttnCap = float32(k.floatOr("attn_logit_softcapping", 50, 0, maxCap))
		k.c.LogitCap = float32(k.floatOr("final_logit_softcapping", 30, 0, maxCap))
		k.windowsOf(k.intOr("attention.sliding_window", 4096, 1, maxCtx), allBut(2), allBut) // the first files do not say it
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{post: "post_attention_norm"}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, post: "post_ffw_norm"}))
		})
		b.end("output_norm")
	},
}

// gemmaConfig reads what Gemma 2 and 3 share. The largest of both scale queries by
// the width that heads would have if they made up the embedding.
func gemmaConfig(k *keys) {
	k.rms()
	k.heads()
	k.feedForward()
	k.rope(kernel.RopeNeox)
	k.embedScale()
	if n := len(k.c.Layers); n == 46 && k.c.Arch == "gemma2" || n == 62 {
		for il := range k.c.Layers {
			l := &k.c.Layers[il]
			l.AttnScale = float32(1 / math.Sqrt(float64(k.c.NEmbd/max(l.NHead, 1))))
		}
	}
}
