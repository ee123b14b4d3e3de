package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// nemotronv2 is RADIO (Heinrich et al. 2024) over square pictures, with several tokens for the whole picture, and of whose
// patches squares become rows (Nemotron Nano V2 VL, 2025).
var nemotronv2 = Kind{
	Name: "nemotron_v2_vl",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 2, 1, maxMerge)
		e.placesOf(k, 0)
		e.readClasses(k)
		e.exactGELU()
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-6
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		s := b.Beside(e.Merge*e.Merge).Norm(kernel.RMS, "mm.model.mlp.0")
		s.Applied(kernel.ReLU2, "mm.model.mlp.1").Product("mm.model.mlp.3").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		return []Part{{Input: e.fixed(prepare.Pad(p, e.Side, e.Side, prepare.Bicubic, [3]byte{}))}}
	},
}
