package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// stablelm is StableLM: norms with a mean. Large ones normalise each head of
// queries and keys, and have both sublayers read the same norm.
var stablelm = Arch{
	Name: "stablelm",
	config: func(k *Keys) {
		k.LayerNorm()
		k.Heads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			a, f := l.Attention(Attention{QKNorm: NormEachHead}), l.FeedForward(FeedForward{})
			if l.Has("ffn_norm.weight") {
				l.Residual("attn_norm", a)
				l.Residual("ffn_norm", f)
			} else {
				l.Residual("attn_norm", a, f)
			}
		})
		b.End("output_norm")
	},
}
