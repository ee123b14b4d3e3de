package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// longcat is LongCat Flash: two layers of attention over latents and a feed-forward are one, in which experts read what
// the first feed-forward reads, and are added behind the second. Some experts return their input.
var longcat = Arch{
	Name: "longcat-flash",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.Config.Latent.Eps = 1e-6 // whatever that of the other norms is
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSoftmax, false)
		k.ReturningExperts()
		k.LatentRope(true)
		if n := len(k.Config.Layers); n%2 != 0 {
			k.Fail("block_count", "%d, want an even number", n)
		}
		for il := range k.Config.Layers {
			k.Config.Layers[il].Sparse = il%2 == 0
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.LatentAttention(LatentAttention{}))
			if l.Sparse {
				l.ExpertsAround("ffn_norm", Experts{}, l.FeedForward(FeedForward{}))
				return
			}
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
			l.AddAround()
		})
		b.End("output_norm")
	},
}
