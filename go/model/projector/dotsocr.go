package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// dotsocr is a transformer over pictures of any size whose patches turn by their places (dots.ocr, 2025).
var dotsocr = Kind{
	Name:    "dots_ocr",
	unsized: true,
	config:  func(e *Encoder, k *Keys) { e.dots(k, k.IntOr("projector.scale_factor", 2, 1, maxMerge)) },
	build: func(e *Encoder, b *Builder) {
		e.dotsBegin(b)
		e.layers(b, nil)
		e.dotsEnd(b)
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return []Part{{Text: "<|img|>"}, {Input: e.inPlace(p, e.input(p, 0, nil))}, {Text: "<|endofimg|>"}}
	},
}

// dots reads what it has, with rows of squares of so many patches a side.
func (e *Encoder) dots(k *Keys, merge int) {
	e.Merge = merge
	e.pixelLimits(k, 4, 14400) // min_pixels, max_pixels of its processor, in rows
	k.Config.Norm, e.Gated = kernel.RMS, true
	k.Config.PostEps = 1e-6 // of ln_q
	k.InPlane(kernel.RopeNeox, 10000, Plane{Axes: [2]int32{Down, Across}})
}

// dotsBegin is x = the norm of patches.
func (e *Encoder) dotsBegin(b *Builder) {
	b.Patches(e.patchColumns(), "", patchMatrix)
	b.Normalise("v.pre_ln")
	b.BegunRows()
}

// dotsEnd makes rows of squares.
func (e *Encoder) dotsEnd(b *Builder) {
	b.Normalise("mm.post_norm")
	s := b.Beside(e.Merge*e.Merge).NormEach(kernel.LayerNorm, e.Config.NEmbd, "mm.input_norm")
	s.Applied(kernel.GELUErf, "mm.0").Product("mm.2").Out()
}
