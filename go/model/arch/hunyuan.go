package arch

import "github.com/quern-llm/quern/go/kernel"

// hunyuan is Hunyuan without experts: Qwen 3 with the norms of queries and keys
// after the rotation.
var hunyuan = Arch{
	Name: "hunyuan-dense",
	config: func(k *keys) {
		k.rms()
		k.heads()
		k.feedForward()
		k.rope(kernel.RopeNeox)
		k.ntk()
	},
	build: func(b *builder) {
		b.begin()
		b.layers(func(l layer) {
			l.residual("attn_norm", l.attention(attention{norm: normAfter}))
			l.residual("ffn_norm", l.feedForward(feedForward{}))
		})
		b.end("output_norm")
	},
}

// hunyuanVL is the text part of Hunyuan VL and of its OCR models. Its rotations have sections for positions in images, which text has
// at the same position: they are plain ones. (llama.cpp has a fourth section of text at position 0.)
var hunyuanVL = Arch{Name: "hunyuan_vl", config: hunyuan.config, build: hunyuan.build}
