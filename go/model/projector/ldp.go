package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// ldp is CLIP and two products, over whose results two blocks of MobileNetV3 go, the second with a step of two (MobileVLM, Chu et
// al. 2023).
var ldp = Kind{
	Name: "ldp",
	config: func(e *Encoder, k *Keys) {
		e.swapped(k, "v.")
		e.features(k)
		e.fixedPositions(k)
		k.Config.Norm = kernel.LayerNorm
		if e.Width%kernel.Panel != 0 {
			k.Fail("projection_dim", "%d, want a multiple of %d", e.Width, kernel.Panel)
		}
		for i := range e.mobile {
			m := &e.mobile[i]
			m.Name, m.Residual = fmt.Sprintf("mm.model.mb_block.%d.block.", i+1), i == 0
			m.Taps = e.channelTaps(k, m.Name+"0.0.weight")
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		s := e.chosenLayers(b).Applied(kernel.GELUErf, "mm.model.mlp.1").Product("mm.model.mlp.3")
		made := *e.Config
		made.NEmbd, made.Eps = e.Width, 1e-5 // of LayerNormAct2d
		next := &made
		for _, m := range e.mobile {
			s.Again(next, func() { b.BringTaps(m) })
			b.Mobile(m)
			s, next = b.Beside(1), nil
		}
		s.Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		in := e.fixed(prepare.Pad(p, e.Side, e.Side, prepare.Bicubic, [3]byte{122, 116, 104})) // as mlp
		side := e.Side / e.Patch
		half := (side + 1) / 2
		in.Made = half * half
		in.Again = &Input{
			Tokens: side * side, From: neighbours(side, side, 1),
			Again: &Input{Tokens: in.Made, From: neighbours(side, side, 2)},
		}
		return []Part{{Input: in}}
	},
}
