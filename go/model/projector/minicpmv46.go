package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// minicpmv46 is SigLIP over a picture and its slices. Behind one of its layers four patches, which see each other before,
// become one, and behind the last four of these a row (MiniCPM-V 4.6, 2026).
var minicpmv46 = Kind{
	Name: "minicpmv4_6",
	config: func(e *Encoder, k *Keys) {
		if e.Merge = k.IntOr("projector.scale_factor", 4, 2, 4); e.Merge == 3 {
			k.Fail("projector.scale_factor", "3, want 2 or 4")
		}
		e.checkTiles(k, maxSlices+1)
		e.swapped(k, "v.")
		e.squarePositions(k)
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-6
		if e.Merge == 2 {
			e.Unread = append(e.Unread, "v.vit_merger.") // which makes the second half of the factor
			return
		}
		e.Inner, e.Midway = 2, 7 // insert_layer_id 6 of its configuration
		if key := "wa_layer_indexes"; k.Has(key) {
			list, err := k.File.Ints(k.Name(key))
			k.Check(err)
			if len(list) == 0 || list[0] < 0 || list[0] >= int64(len(k.Config.Layers)) {
				k.Fail(key, "%v, want a number of a layer, 0 to %d", list, len(k.Config.Layers)-1)
			}
			e.Midway = int(list[0]) + 1
		}
		if e.Midway > len(k.Config.Layers) {
			k.Fail("block_count", "%d, want at least %d", len(k.Config.Layers), e.Midway)
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, func(il int) {
			if e.Inner > 0 && il+1 == e.Midway {
				e.mergeMidway(b)
			}
		})
		b.Normalise("v.post_ln")
		s := b.Beside(4).Norm(kernel.LayerNorm, "mm.input_norm")
		s.Applied(kernel.GELUErf, "mm.up").Product("mm.down").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part { return e.sliceParts(p, e.slicedInput) },
}

// mergeMidway has the patches of a square see each other, and makes one of them.
func (e *Encoder) mergeMidway(b *Builder) {
	const stem = "v.vit_merger."
	n := e.Inner * e.Inner
	sizes := b.Config.Layers[0]
	sizes.Window = n
	b.RowLayer(stem, sizes, func(l Layer) { l.Residual("ln1", l.Attention(Attention{Out: "attn_out"})) })
	s := b.Beside(n).Norm(kernel.LayerNorm, stem+"ds_ln").Applied(kernel.GELU, stem+"ds_ffn_up")
	s.Product(stem+"ds_ffn_down").Plus(b.Mean(n)).Again(nil, nil)
}

// slicedInput returns the input of a picture or a slice whose patches have the positions that are at their part of its sides in the square
// that those of the training are.
func (e *Encoder) slicedInput(p *picture.RGB) *Input {
	t, g := e.tables[positions], e.patched(p)
	side := t.side()
	in := e.input(p, t.columns, func(dst []float32, x, y int) {
		copy(dst, t.row(y*side/g.rows*side+x*side/g.columns))
	})
	if e.Inner > 0 {
		for range in.Tokens / (e.Inner * e.Inner) {
			in.Windows = append(in.Windows, e.Inner*e.Inner)
		}
	}
	return in
}
