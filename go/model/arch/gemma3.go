package arch

import "github.com/quern-llm/quern/go/kernel"

// gemma3 is Gemma 3: Gemma 2 with norms of queries and keys in place of the cap
// on scores. Five layers of six have a window, and rotations of a smaller base that
// are not stretched.
var gemma3 = Arch{
	Name: "gemma3",
	config: func(k *keys) {
		gemmaConfig(k)
		k.c.LogitCap = float32(k.floatOr("final_logit_softcapping", 0, 0, maxCap))
		if k.intOr("attention.sliding_window", 0, 0, maxCtx) > 0 { // Rnj 1 has none
			k.windows(allBut(6))
			k.windowRope(10000)
		}
	},
	build: func(b *builder) {
		gemma3Layers(b)
		b.end("output_norm")
	},
}

func gemma3Layers(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		l.residual("attn_norm", l.attention(attention{norm: normHead, post: "post_attention_norm"}))
		l.residual("ffn_norm", l.feedForward(feedForward{fn: kernel.GELU, post: "post_ffw_norm"}))
	})
}
