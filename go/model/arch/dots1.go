package arch

import "github.com/quern-llm/quern/go/kernel"

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
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normMaybe}))
			l.mixture("post_attention_norm", experts{})
		})
		b.end("output_norm")
	},
}

func dots1Config(k *keys) { sigmoidMixture(k, true) }

// sigmoidMixture reads the sizes of a model with sigmoid routing, shared experts and dense first layers. norm: where the file does not
// say, the weights of the experts of a token sum to 1.
func sigmoidMixture(k *keys, norm bool) {
	k.rms()
	k.heads()
	k.feedForward()
	k.experts()
	k.expertWeights(kernel.GateSigmoid, norm)
	k.denseLead()
	k.sharedExperts()
	k.rope(kernel.RopeNeox)
}

func dots1Build(b *builder) {
	b.begin()
	b.layers(func(l layer) {
		l.residual("attn_norm", l.attention(attention{norm: normHead}))
		l.mixture("ffn_norm", experts{})
	})
	b.end("output_norm")
}
