package arch

import "github.com/quern-llm/quern/go/kernel"

// museglimmer is Muse Glimmer: gated attention, norms of the embeddings and before
// and after each sublayer, soft-capped logits, and rotations only in the three layers of
// four with a window.
var museglimmer = Arch{
	Name: "muse-glimmer",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNorm)
		k.c.LogitScale = float32(k.floatOr("logit_scale", 1, 1e-6, 1e6))
		k.c.LogitCap = float32(k.floatOr("final_logit_softcapping", 0, 0, maxCap))
		k.c.EmbedNorm = true
		k.windows(allBut(4))
		k.ropeInWindows()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normHead, gate: gateOwn, post: "post_attention_norm"}))
			l.residual("ffn_norm", l.feedForward(feedForward{post: "post_ffw_norm"}))
		})
		b.end("output_norm")
	},
}
