package arch

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// cohere2moe is Cohere's Command with experts: cohere2 with sigmoid routing, and the mean of routed and shared experts.
// The first layer of four sees all and has no rotations, but for the first layers, which are dense. The one that
// predicts a further token sees all, with rotations.
var cohere2moe = Arch{
	Name: "cohere2moe",
	config: func(k *Keys) {
		const rms = "attention.layer_norm_rms_epsilon"
		if k.FloatOr(rms, 0, 0, 1) != 0 {
			k.RMSNorm()
		} else {
			k.LayerNorm()
		}
		k.Heads()
		k.FeedForward()
		k.Experts()
		k.ExpertWeights(kernel.GateSigmoid, false)
		k.LeadingDense()
		k.SharedExperts()
		if k.Config.NFFShared > 0 {
			k.Config.ExpertScale /= 2
		}
		k.Rope(kernel.RopeNorm)
		k.Config.LogitScale = float32(k.FloatOr("logit_scale", 1, 1e-6, 1e6))
		k.Config.NextLayers = slices.Repeat(k.Config.Layers[max(len(k.Config.Layers)-1, 0):], k.Config.NNext)
		k.WindowsIn(AllButFirst(4), AllButFirst)
		for il := range k.Config.Layers {
			if l := &k.Config.Layers[il]; l.Window == 0 && l.Sparse {
				l.Rope = Rope{}
			}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			a := l.Attention(Attention{})
			switch {
			case !l.Sparse:
				l.Residual("attn_norm", a, l.FeedForward(FeedForward{}))
			case b.Config.NFFShared == 0:
				l.Residual("attn_norm", a, l.Experts(Experts{}))
			default:
				l.Residual("attn_norm", a, l.Experts(Experts{}), l.FeedForward(FeedForward{Shared: true, Scale: 0.5}))
			}
		})
		b.End("output_norm")
	},
}
