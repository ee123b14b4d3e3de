package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// januspro is SigLIP and two products (Janus-Pro, Chen et al. 2025).
var januspro = Kind{
	Name: "janus_pro",
	config: func(e *Encoder, k *Keys) {
		e.fixedPositions(k)
		e.exactGELU()
		k.Config.Norm = kernel.LayerNorm
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		b.Beside(1).Applied(kernel.GELUErf, "mm.0").Product("mm.1").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = prepare.Pad(p, e.Side, e.Side, prepare.Bicubic, [3]byte{127, 127, 127}) // background_color of its processor
		return []Part{{Text: "<begin_of_image>"}, {Input: e.fixed(p)}, {Text: "<end_of_image>"}}
	},
}
