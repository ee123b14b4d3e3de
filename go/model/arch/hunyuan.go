package arch

import (
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// hunyuan is Hunyuan without experts: Qwen 3 with the norms of queries and keys
// after the rotation.
var hunyuan = Arch{
	Name: "hunyuan-dense",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.NTK()
	},
	build: func(b *Builder) { b.Dense(Attention{QKNorm: NormAfterRope}, FeedForward{}) },
}

// hunyuanVL is the text part of Hunyuan VL and of its OCR models. Its rotations have sections for positions in images,
// which text has at the same position: they are plain ones. (llama.cpp has a fourth section of text at position 0.)
var hunyuanVL = Arch{Name: "hunyuan_vl", config: hunyuan.config, build: hunyuan.build}
