package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// seedoss is Seed-OSS: Qwen 2 with wider heads; the norm before the feed-forward
// is called post_attention_norm.
var seedoss = Arch{
	Name:   "seed_oss",
	config: func(k *Keys) { k.Dense(kernel.RopeNeox) },
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{}))
			l.Residual("post_attention_norm", l.FeedForward(FeedForward{}))
		})
		b.End("output_norm")
	},
}
