package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// arcee is AFM: Llama with squared ReLU and no gate.
var arcee = Arch{
	Name: "arcee",
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
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fn: kernel.ReLU2, Ungated: true}))
		})
		b.End("output_norm")
	},
}
