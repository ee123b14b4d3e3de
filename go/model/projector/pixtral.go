package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// pixtral is the encoder of Pixtral (Agrawal et al. 2024), Mistral Small 3 and Ministral 3. Between rows of a picture is the
// embedding of a break.
var pixtral = Kind{
	Name: "pixtral",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 1, 1, maxMerge)
		e.MinRows, e.MaxRows = 8, 1024
		k.Config.Norm, e.Gated = kernel.RMS, true
		k.InPlane(kernel.RopeNorm, 10000, Plane{Axes: [2]int32{Down, Across}, Between: true})
		e.table(k, breakRow, e.Width)
	},
	build: func(e *Encoder, b *Builder) {
		b.Patches(e.patchColumns(), "", patchMatrix)
		b.Normalise("v.pre_ln")
		b.BegunRows()
		e.layers(b, nil)
		n := e.Merge * e.Merge
		s := b.Beside(n)
		if b.Has("mm.input_norm.weight") {
			s = s.NormEach(kernel.RMS, b.Config.NEmbd, "mm.input_norm").Merged("mm.patch_merger", n)
		}
		s.Applied(kernel.GELUErf, "mm.1").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		in := e.inPlace(p, e.input(p, 0, nil))
		return []Part{{Input: in.broken(e.tables[breakRow].row(0))}, {Text: "[IMG_END]"}}
	},
}

// breakRow is the tensor with the embedding of what is between two rows of a picture.
const breakRow = "v.token_embd.img_break"

// broken returns the input with breaks between the rows of the picture, but not behind the last.
func (in *Input) broken(row []float32) *Input {
	in.Breaks = [][]float32{row}
	for i := range in.Made {
		if i > 0 && i%in.Grid.Columns == 0 {
			in.Order = append(in.Order, -1)
		}
		in.Order = append(in.Order, int32(i))
	}
	return in
}
