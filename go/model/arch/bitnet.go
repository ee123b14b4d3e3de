package arch

import "github.com/quern-llm/quern/go/kernel"

// bitnet is BitNet b1.58: Llama with norms before the products that end a sublayer, and scales
// beside matrices. No key has the function of the feed-forward: it is SiLU in the models of
// 2024, and the squared ReLU in BitNet b1.58 2B4T, which is known by its sizes.
var bitnet = Arch{
	Name: "bitnet",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
	},
	build: func(b *builder) {
		fn := kernel.SiLU
		if c := b.cfg; c.NEmbd == 2560 && c.Layers[0].NFF == 6912 && len(c.Layers) == 30 {
			fn = kernel.ReLU2
		}
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{sub: "attn_sub_norm"}))
			l.residual("ffn_norm", l.feedForward(feedForward{fn: fn, sub: "ffn_sub_norm"}))
		})
		b.end("output_norm")
	},
}
