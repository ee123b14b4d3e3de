package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma3 is SigLIP (Zhai et al. 2023) whose patches are averaged by squares (Gemma 3, 2025).
var gemma3 = Kind{
	Name: "gemma3",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 4, 1, maxMerge)
		e.swapped(k, "v.")
		e.fixedPositions(k)
		k.Config.Norm = kernel.LayerNorm
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		s := b.Mean(e.Merge*e.Merge).Norm(kernel.RMS, "mm.soft_emb_norm")
		s.Transposed("mm.input_projection", e.Width).Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = prepare.Pad(p, e.Side, e.Side, prepare.Bilinear, [3]byte{})
		return []Part{{Text: "<start_of_image>"}, {Input: e.fixed(p)}, {Text: "<end_of_image>"}}
	},
	bothWays: func(int) bool { return true },
}
