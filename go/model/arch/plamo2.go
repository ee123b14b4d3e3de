package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// plamo2 is PLaMo 2: state spaces whose heads have a step and a rate each, and attention in layers with key-value
// heads; norms before and after each sublayer.
var plamo2 = Arch{
	Name: "plamo2",
	config: func(k *Keys) {
		k.RMSNorm()
		k.MixedHeads()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
		k.HeadScan()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			mixer := l.HeadScan
			if l.NHeadKV > 0 {
				mixer = func(post string) Sublayer {
					return l.Attention(Attention{QKNorm: NormEachHead,
						PostNorm: post})
				}
			}
			l.Residual("attn_norm", mixer("post_attention_norm"))
			l.Residual("ffn_norm", l.FeedForward(FeedForward{Fused: true, PostNorm: "post_ffw_norm"}))
		})
		b.End("output_norm")
	},
}
