package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// kimivl is MoonViT (Kimi-VL, 2025): SigLIP over pictures of any size, whose patches also turn by their places, and of which
// squares become rows.
var kimivl = Kind{
	Name: "kimivl",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 2, 1, maxMerge)
		e.MinRows, e.MaxRows = 8, 1024 // in_token_limit 4096 of its processor, in patches
		e.moonViT(k, Plane{Axes: [2]int32{Across, Down}, Mixed: true})
	},
	build: moonViT,
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return []Part{{Text: "<|media_start|>"}, {Input: e.inPlace(p, e.resampled(p, cubics))}, {Text: "<|media_end|>"}}
	},
}

func (e *Encoder) moonViT(k *Keys, p Plane) {
	e.squarePositions(k)
	k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-5
	k.InPlane(kernel.RopeNorm, 10000, p) // Rope2DPosEmb of its publisher
}

func moonViT(e *Encoder, b *Builder) {
	e.patchesAndPositions(b, patchMatrix)
	e.layers(b, nil)
	b.Normalise("v.post_ln")
	s := b.Beside(e.Merge*e.Merge).NormEach(kernel.LayerNorm, e.Config.NEmbd, "mm.input_norm")
	s.Applied(kernel.GELUErf, "mm.1").Product("mm.2").Out()
}
