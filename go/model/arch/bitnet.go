package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// bitnet is BitNet b1.58: Llama with norms before the products that end a sublayer, and scales
// beside matrices. No key has the function of the feed-forward: it is SiLU in the models of
// 2024, and the squared ReLU in BitNet b1.58 2B4T, which is known by its sizes.
var bitnet = Arch{
	Name:   "bitnet",
	config: func(k *Keys) { k.Dense(kernel.RopeNeox) },
	build: func(b *Builder) {
		fn := kernel.SiLU
		if c := b.Config; c.NEmbd == 2560 && c.Layers[0].NFF == 6912 && len(c.Layers) == 30 {
			fn = kernel.ReLU2
		}
		b.Dense(Attention{SubNorm: "attn_sub_norm"}, FeedForward{Fn: fn, SubNorm: "ffn_sub_norm"})
	},
}
