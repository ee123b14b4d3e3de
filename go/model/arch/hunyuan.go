package arch

import (
	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

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

// ntk reads by how much the base of rotations grows (NTK-aware scaling). Most files have the grown one.
func (k *keys) ntk() {
	const key = "rope.scaling.alpha"
	alpha := k.floatOr(key, 0, 0, 1e6)
	if alpha == 0 {
		return
	}
	for il := range k.c.Layers {
		l := &k.c.Layers[il]
		if l.HeadDim <= 2 {
			k.fail(key, "%v with heads of %d, want more than 2", alpha, l.HeadDim)
		}
		l.Rope.Base *= exactmath.Pow(alpha, float64(l.HeadDim)/float64(l.HeadDim-2))
	}
}
