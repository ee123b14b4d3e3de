package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// dots1 is dots.llm1: each head of queries and keys normalised, sigmoid routing with a
// correction of the choice, shared experts beside the routed ones, dense first layers.
var dots1 = Arch{Name: "dots1", config: dots1Config, build: dots1Build}

// bailingmoe2 is Ling and Ring 2: dots1 with groups of experts, of which a token uses those in
// the best ones, and half of each head rotated.
var bailingmoe2 = Arch{Name: "bailingmoe2", config: dots1Config, build: dots1Build}

// glm4moe is GLM 4.5 to 4.7: dots1, whose norm before the feed-forward is called
// post_attention_norm. The large ones alone normalise each head of queries and keys.
var glm4moe = Arch{
	Name:   "glm4moe",
	config: dots1Config,
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHeadOptional}))
			l.Mixture("post_attention_norm", Experts{})
		})
		b.End("output_norm")
	},
}

func dots1Config(k *Keys) { sigmoidMixture(k, true) }

// sigmoidMixture reads the sizes of a model with sigmoid routing, shared experts and dense first layers. norm: where
// the file does not say, the weights of the experts of a token sum to 1.
func sigmoidMixture(k *Keys, norm bool) {
	k.RMSNorm()
	k.Heads()
	k.FeedForward()
	k.Experts()
	k.ExpertWeights(kernel.GateSigmoid, norm)
	k.LeadingDense()
	k.SharedExperts()
	k.Rope(kernel.RopeNeox)
}

func dots1Build(b *Builder) {
	b.Begin()
	b.Layers(func(l Layer) {
		l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead}))
		l.Mixture("ffn_norm", Experts{})
	})
	b.End("output_norm")
}
