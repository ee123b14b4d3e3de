package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// minimaxm3 is a transformer over pictures of any size whose patches turn by their places in parts of a head; products follow
// for each patch, and then for the squares that become rows (MiniMax-M3, 2026).
var minimaxm3 = Kind{
	Name: "minimax_m3",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
		e.MinRows, e.MaxRows = 4, 576 // size of its processor, in rows
		e.Frames = 2
		e.Fn = kernel.GELUErf
		k.Config.Norm = kernel.LayerNorm
		k.InThirds(kernel.RopeNeox, 10000)
	},
	build: func(e *Encoder, b *Builder) {
		b.Patches(e.patchColumns(), "", patchMatrix, secondMatrix)
		b.NormaliseOptional("v.pre_ln")
		b.BegunRows()
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		s := b.Beside(1).Applied(kernel.GELUErf, "mm.1").Product("mm.2")
		merging := *e.Config
		merging.NEmbd = s.Width
		s.Again(&merging, nil)
		b.Beside(e.Merge*e.Merge).Applied(kernel.GELUErf, "mm.merger.fc1").Product("mm.merger.fc2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.stretched(p)
		in := e.inPlace(p, e.input(p, 0, nil))
		return []Part{{Text: "]<]start of image[>["}, {Input: in}, {Text: "]<]end of image[>["}}
	},
}
