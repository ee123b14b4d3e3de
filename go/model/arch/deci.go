package arch

import "github.com/quern-llm/quern/go/kernel"

// deci is Llama Nemotron of 49B, 51B and 253B, and DeciLM: Llama whose layers differ, in the width of their sublayers,
// and in whether they have them; in some a matrix is in place of attention.
var deci = Arch{
	Name: "deci",
	config: func(k *keys) {
		k.rms()
		k.mixedHeads()
		k.each("feed_forward_length", 0, maxFF, func(l *Layer, n int) { l.NFF = n })
		k.rope(kernel.RopeNorm)
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			switch {
			case l.NHeadKV > 0:
				l.residual("attn_norm", l.attention(attention{}))
			case l.NHead > 0:
				l.residual("attn_norm", l.linear("attn_output"))
			}
			if l.NFF > 0 {
				l.residual("ffn_norm", l.feedForward(feedForward{}))
			}
		})
		b.end("output_norm")
	},
}
