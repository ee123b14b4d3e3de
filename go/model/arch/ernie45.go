package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// ernie45 is ERNIE 4.5 without experts, which is Llama.
var ernie45 = Arch{
	Name: "ernie4_5",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNorm)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
