package arch

import "github.com/quern-llm/quern/go/kernel"

// plamo2 is PLaMo 2: state spaces whose heads have a step and a rate each, and attention in layers with key-value
// heads; norms before and after each sublayer.
var plamo2 = Arch{
	Name: "plamo2",
	config: func(k *keys) {
		k.rms()
		k.mixedHeads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.headScan()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			mixer := l.headScan
			if l.NHeadKV > 0 {
				mixer = func(post string) sublayer { return l.attention(attention{norm: normEach, post: post}) }
			}
			l.residual("attn_norm", mixer("post_attention_norm"))
			l.residual("ffn_norm", l.feedForward(feedForward{fused: true, post: "post_ffw_norm"}))
		})
		b.end("output_norm")
	},
}
