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

// hunyuanVL is Hunyuan VL and its OCR models. Its rotations have sections for the position, and for the column, the row and
// the number of a picture, which are counted in each picture anew.
var hunyuanVL = Arch{
	Name: "hunyuan_vl",
	config: func(k *Keys) {
		hunyuan.config(k)
		k.Sections(false)
		k.Config.OwnPlaces = true
	},
	build: hunyuan.build,
}
