package projector

import (
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// kimik25 is MoonViT in Kimi K2.5 and GLM 5V, whose files have the dimensions of each axis together.
var kimik25 = Kind{
	Name: "kimik25",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 2, 1, maxMerge)
		e.pixelLimits(k, 8, 4096)
		e.moonViT(k, Plane{Axes: [2]int32{Across, Down}})
	},
	build: moonViT,
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return []Part{{Text: "<|media_begin|>"}, {Input: e.inPlace(p, e.resampled(p, cubics))}, {Text: "<|media_end|>"}}
	},
}
