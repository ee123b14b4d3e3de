package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// nanochat is nanochat: norms without weights, of the embeddings, of queries and of keys too, squared ReLU without a
// gate, and a soft cap of logits.
var nanochat = Arch{
	Name: "nanochat",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.Config.BareNorms, k.Config.EmbedNorm = true, true
		k.Config.LogitCap = float32(k.FloatOr("final_logit_softcapping", 0, 0, MaxCap))
	},
	build: func(b *Builder) {
		b.Dense(Attention{QKNorm: NormUnweighted}, FeedForward{Fn: kernel.ReLU2, Ungated: true})
	},
}
