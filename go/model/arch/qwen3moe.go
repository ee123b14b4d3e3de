package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen3moe is Qwen 3 with experts in place of the feed-forward.
var qwen3moe = Arch{
	Name: "qwen3moe",
	config: func(k *Keys) {
		qwen3moeKeys(k, "rope.dimension_count")
		k.DenseBesides()
	},
	build: func(b *Builder) {
		b.Begin()
		b.Layers(func(l Layer) {
			l.Residual("attn_norm", l.Attention(Attention{QKNorm: NormHead}))
			l.Mixture("ffn_norm", Experts{})
		})
		b.End("output_norm")
	},
}

// qwen3moeKeys reads the sizes of such a model; a key gives the number of rotated dimensions.
func qwen3moeKeys(k *Keys, rotated string) {
	k.RMSNorm()
	k.Heads()
	k.Experts()
	k.ExpertNorm(true)
	k.RopeOver(kernel.RopeNeox, rotated)
}
