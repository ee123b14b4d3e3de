package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// plamo is PLaMo: both sublayers read the same norm.
var plamo = Arch{
	Name:   "plamo",
	config: func(k *Keys) { k.Dense(kernel.RopeNeox) },
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}), l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
