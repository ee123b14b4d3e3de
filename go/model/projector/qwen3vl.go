package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen3vl is the encoder of Qwen3-VL (2025) and of Qwen 3.5 to 3.8: a ViT with interpolated positions and rotations in the
// plane, whose 2x2 patches become a row. Of some of its layers (deepstack) come further columns of rows, which the first
// layers of the text model add.
var qwen3vl = Kind{
	Name: "qwen3vl_merger",
	config: func(e *Encoder, k *Keys) {
		e.qwen(k)
		k.Config.Norm = kernel.LayerNorm
		t := e.table(k, positions, k.Config.NEmbd)
		if t.side() == 0 {
			k.Check(fmt.Errorf("tensor %q: %d rows, want those of a square", positions, t.rows))
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix, secondMatrix)
		n := e.Merge * e.Merge
		e.layers(b, func(il int) {
			name := fmt.Sprintf("v.deepstack.%d.", il)
			if b.Has(name + "norm.weight") {
				s := b.Beside(n).Norm(kernel.LayerNorm, name+"norm")
				s.Applied(kernel.GELU, name+"fc1").Product(name + "fc2").Out()
			}
		})
		b.Normalise("v.post_ln")
		b.Beside(n).Applied(kernel.GELU, "mm.0").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		t, g := e.tables[positions], e.patched(p)
		in := e.input(p, t.columns, func(dst []float32, x, y int) { t.between(dst, x, y, g.columns, g.rows) })
		return e.qwenParts(e.inPlace(p, in))
	},
	stamp: func(at float64) string { return fmt.Sprintf("<%.1f seconds>", at) },
}

// qwen reads what the encoders of Qwen's models have in common.
func (e *Encoder) qwen(k *Keys) {
	e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
	e.MinRows, e.MaxRows = 8, 4096 // of their processors, but for the maximum, which was 16384
	e.Frames, e.FilmRows = 2, 768
	k.InPlane(kernel.RopeNeox, 10000, Plane{Axes: [2]int32{Down, Across}})
}

// qwenParts returns a picture between the fences of Qwen's models.
func (e *Encoder) qwenParts(in *Input) []Part {
	return []Part{{Text: "<|vision_start|>"}, {Input: in}, {Text: "<|vision_end|>"}}
}
