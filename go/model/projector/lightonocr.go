package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// lightonocr is Pixtral's encoder in LightOnOCR (2025), without breaks between rows of a picture.
var lightonocr = Kind{
	Name: "lightonocr",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
		k.Config.Norm, e.Gated = kernel.RMS, true
		k.InPlane(kernel.RopeNorm, 10000, Plane{Axes: [2]int32{Down, Across}, Between: true})
		e.exactGELU()
	},
	build: pixtral.build,
	// See LightOnOcrProcessor of transformers: there is nothing around a picture, and small ones stay as they are.
	see: func(e *Encoder, p *picture.RGB) []Part {
		w, h := prepare.Longest(p.Width, p.Height, e.Patch*e.Merge, min(e.Side, max(p.Width, p.Height)))
		p = prepare.Resize(p, w, h, prepare.Bicubic)
		return []Part{{Input: e.inPlace(p, e.input(p, 0, nil))}}
	},
}
