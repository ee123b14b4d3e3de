package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// arctic is Snowflake Arctic: Llama with a small dense feed-forward, and beside both sublayers experts, which read a
// norm of the layer's input.
var arctic = Arch{
	Name: "arctic",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.Experts()
		k.ExpertNorm(true)
		for il := range k.Config.Layers { // the key is of experts
			k.Config.Layers[il].NFF = k.Config.NEmbd
		}
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			e := l.Experts(Experts{})
			act := l.Act("embd beside", kernel.TokRows, b.Config.NEmbd, e.In...)
			l.Add(l.Norm(act, l.X(), kernel.TokRows, "ffn_norm_exps"))
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
			e.Run(act)
		})
		b.End("output_norm")
	},
}
