package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// museglimmer is Muse Glimmer: gated attention, norms of the embeddings and before
// and after each sublayer, soft-capped logits, and rotations only in the three layers of
// four with a window.
var museglimmer = Arch{
	Name: "muse-glimmer",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNorm)
		k.Config.LogitScale = float32(k.FloatOr("logit_scale", 1, 1e-6, 1e6))
		k.Config.LogitCap = float32(k.FloatOr("final_logit_softcapping", 0, 0, MaxCap))
		k.Config.EmbedNorm = true
		k.Config.PostEps = float32(k.FloatOr("quern.attention.post_norm_epsilon", 0, 0, 1))
		k.Windows(AllBut(4))
		k.RopeInWindows()
	},
	build: func(b *Builder) {
		b.Dense(Attention{QKNorm: NormHead, Gate: GateChannel, PostNorm: "post_attention_norm"},
			FeedForward{PostNorm: "post_ffw_norm"})
	},
}
