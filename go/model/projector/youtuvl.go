package projector

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// youtuvl is SigLIP 2 without embeddings of positions, over pictures of any size whose patches turn by their places, and in
// most layers see those of their window alone (Youtu-VL, 2026).
var youtuvl = Kind{
	Name: "youtuvl",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
		e.MinRows, e.MaxRows = 1, 62500 // pictures of 8000 x 8000 pixels
		e.ByPixel = true
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-6
		k.InPlane(kernel.RopeNeox, 10000, Plane{Axes: [2]int32{Down, Across}})
		e.windowedLayers(k, 0)
	},
	build: func(e *Encoder, b *Builder) {
		b.Patches(e.patchColumns(), "", patchMatrix)
		b.NormaliseOptional("v.pre_ln")
		b.BegunRows()
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		s := b.Beside(e.Merge*e.Merge).NormEach(kernel.RMS, e.Config.NEmbd, "mm.input_norm")
		s.Applied(kernel.GELUErf, "mm.0").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		w, h := e.within(p.Width, p.Height)
		p = prepare.Resize(p, w, h, prepare.Bilinear)
		return e.qwenParts(e.windowed(p, e.input(p, 0, nil)))
	},
}

// within returns the sides of a w x h picture, rounded up to whole rows; scaled down by steps, if there are more of them than
// the encoder reads.
func (e *Encoder) within(w, h int) (int, int) {
	unit := e.Patch * e.Merge
	for step := range 50 {
		scale := 1 - float64(step)/50
		up := func(n int) int { return max(int(math.Ceil(float64(n)*scale/float64(unit))), 1) }
		if x, y := up(w), up(h); x*y <= e.MaxRows {
			return x * unit, y * unit
		}
	}
	return unit, unit
}
