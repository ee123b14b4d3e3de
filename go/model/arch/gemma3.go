package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma3 is Gemma 3: Gemma 2 with norms of queries and keys in place of the cap
// on scores. Five layers of six have a window, and rotations of a smaller base that
// are not stretched.
var gemma3 = Arch{
	Name: "gemma3",
	config: func(k *Keys) {
		gemmaConfig(k)
		k.Config.AttnCap = float32(k.FloatOr("attn_logit_softcapping", 0, 0, MaxCap))
		k.Config.LogitCap = float32(k.FloatOr("final_logit_softcapping", 0, 0, MaxCap))
		if k.IntOr("attention.sliding_window", 0, 0, MaxCtx) > 0 { // Rnj 1 has none
			k.Windows(AllBut(6))
			k.WindowRope(10000)
		}
		k.SeeMedia(func(*LayerConfig) bool { return true })
	},
	build: func(b *Builder) {
		gemma3Layers(b)
		b.End("output_norm")
	},
}

func gemma3Layers(b *Builder) {
	b.Begin()
	b.Layers(func(l Layer) {
		l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead, PostNorm: "post_attention_norm"}))
		l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.GELU, PostNorm: "post_ffw_norm"}))
	})
}
