package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// grok is Grok 1 and 2: norms before and after each sublayer, soft caps on scores and, in Grok 2, on the router's and
// on all logits, GeGLU experts, beside which Grok 2 has a dense feed-forward. Files of Grok 1 do not say its constants.
// Scores of Grok 2 grow with the logarithm of the position beyond the length that attention.temperature_length says,
// after their cap. llama.cpp leaves out that, and the cap of the router's logits, which the reference for Grok 2 in
// SGLang has.
var grok = Arch{
	Name: "grok",
	config: func(k *Keys) {
		c := k.Config
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Experts()
		c.ExpertNorm = true
		k.Rope(kernel.RopeNeox)
		c.EmbedScale = float32(k.FloatOr("embedding_scale", 78.38367176906169, 1e-6, 1e6))
		c.LogitScale = float32(k.FloatOr("logit_scale", 1/math.Sqrt(3), 1e-6, 1e6))
		c.AttnCap = float32(k.FloatOr("attn_logit_softcapping", 30, 0, MaxCap))
		c.RouterCap = float32(k.FloatOr("router_logit_softcapping", 0, 0, MaxCap))
		c.LogitCap = float32(k.FloatOr("final_logit_softcapping", 0, 0, MaxCap))
		scale := float32(k.FloatOr("attention.output_scale", 1/math.Sqrt(128), 1e-6, 1e6))
		for il := range c.Layers {
			l := &c.Layers[il]
			l.AttnScale = scale
			if l.Rope.Scaling.Type == "yarn" && !k.Has("rope.scaling.yarn_beta_fast") {
				l.Rope.Scaling.BetaFast = 8
			}
		}
		if _, ok := k.File.Tensor("blk.0.ffn_up.weight"); ok { // the sum of both is over the root of 2
			c.ExpertScale *= math.Sqrt2 / 2
		}
		const grow = "attention.temperature_length"
		if n := k.IntOr(grow, 0, 0, MaxCtx); n == 1 {
			k.Fail(grow, "1, want 0 or more than 1")
		} else {
			for il := range c.Layers {
				c.Layers[il].Temperature.Beyond = n
			}
		}
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{PostNorm: "attn_output_norm"}))
			post := "layer_output_norm"
			if !l.Has(post + ".weight") {
				post = "post_ffw_norm"
			}
			sublayers := []Sublayer{l.Experts(Experts{Fn: kernel.GELU, SumNorm: post})}
			if l.Has("ffn_up.weight") {
				sublayers = append(sublayers,
					l.FeedForward(FeedForward{Fn: kernel.GELU, Onto: true, Scale: math.Sqrt2 / 2}))
			}
			l.Residual("ffn_norm", sublayers...)
			l.AddSum(post)
		})
		b.End("output_norm")
	},
}
