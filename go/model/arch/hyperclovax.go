package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// hyperclovax is HyperCLOVA X: granite whose sublayers' results are normalised as well, if the file has the weights, and
// whose logits are multiplied, not divided.
var hyperclovax = Arch{
	Name: "hyperclovax",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.AttnScale()
		k.Config.EmbedScale = float32(k.FloatOr("embedding_scale", 1, 1e-6, 1e6))
		k.Config.ResidualScale = float32(k.FloatOr("residual_scale", 1, 1e-6, 1e6))
		k.Config.LogitScale = float32(k.FloatOr("logit_scale", 1, 1e-6, 1e6))
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			attention, ffn := Attention{}, FeedForward{}
			if l.Has("post_attention_norm.weight") {
				attention.PostNorm, ffn.PostNorm = "post_attention_norm", "post_ffw_norm"
			}
			l.Residual("attn_norm", l.Attention(attention))
			l.Residual("ffn_norm", l.FeedForward(ffn))
		})
		b.End("output_norm")
	},
}
