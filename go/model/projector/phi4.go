package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// phi4 is SigLIP 2 over pictures of any size and two products (Phi-4 reasoning vision, 2026).
var phi4 = Kind{
	Name: "phi4",
	config: func(e *Encoder, k *Keys) {
		e.pixelLimits(k, 256, 3600) // min_num_patches, max_num_patches of its processor
		e.squarePositions(k)
		k.Config.Norm = kernel.LayerNorm
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		b.Beside(1).Applied(kernel.GELUErf, "mm.0").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		w, h := e.size(p)
		p = prepare.Pad(p, w, h, prepare.Bilinear, [3]byte{})
		return []Part{{Input: e.resampled(p, triangles)}}
	},
}
