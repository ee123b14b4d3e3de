package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// paddleocr is SigLIP over pictures of any size whose patches also turn by their places (PaddleOCR-VL, 2025).
var paddleocr = Kind{
	Name: "paddleocr",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
		e.pixelLimits(k, 8, 4096)
		e.squarePositions(k)
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-5
		k.InPlane(kernel.RopeNeox, 10000, Plane{Axes: [2]int32{Down, Across}})
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		s := b.Beside(e.Merge*e.Merge).NormEach(kernel.LayerNorm, e.Config.NEmbd, "mm.input_norm")
		s.Applied(kernel.GELUErf, "mm.1").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return []Part{{Text: "<|IMAGE_START|>"}, {Input: e.inPlace(p, e.resampled(p, lines))}, {Text: "<|IMAGE_END|>"}}
	},
}
