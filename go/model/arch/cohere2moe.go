package arch

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// cohere2moe is Cohere's Command with experts: cohere2 with sigmoid routing, and the mean of routed and shared experts. The first
// layer of four sees all and has no rotations, but for the first layers, which are dense. The one that predicts a further token
// sees all, with rotations.
var cohere2moe = Arch{
	Name: "cohere2moe",
	config: func(k *keys) {
		const rms = "attention.layer_norm_rms_epsilon"
		if k.floatOr(rms, 0, 0, 1) != 0 {
			k.rms()
		} else {
			k.layerNorm()
		}
		k.heads()
		k.feedForward()
		k.experts()
		k.expertWeights(kernel.GateSigmoid, false)
		k.denseLead()
		k.sharedExperts()
		if k.c.NFFShared > 0 {
			k.c.ExpertScale /= 2
		}
		k.rope(kernel.RopeNorm)
		k.c.LogitScale = float32(k.floatOr("logit_scale", 1, 1e-6, 1e6))
		k.c.NextLayers = slices.Repeat(k.c.Layers[max(len(k.c.Layers)-1, 0):], k.c.NNext)
		k.windowsIn(allButFirst(4), allButFirst)
		for il := range k.c.Layers {
			if l := &k.c.Layers[il]; l.Window == 0 && l.Sparse {
				l.Rope = Rope{}
			}
		}
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			a := l.attention(attention{})
			switch {
			case !l.Sparse:
				l.residual("attn_norm", a, l.feedForward(feedForward{}))
			case b.cfg.NFFShared == 0:
				l.residual("attn_norm", a, l.experts(experts{}))
			default:
				l.residual("attn_norm", a, l.experts(experts{}), l.feedForward(feedForward{shared: true, scale: 0.5}))
			}
		})
		b.end("output_norm")
	},
}
