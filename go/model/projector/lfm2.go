package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// lfm2 is SigLIP 2 over pictures of any size, of whose patches squares become rows (LFM2-VL, 2025).
var lfm2 = Kind{
	Name: "lfm2",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 2, 1, maxMerge)
		e.MinRows, e.MaxRows = 64, 256 // min_image_tokens, max_image_tokens of its processor
		if lfm2Tile%(e.Patch*e.Merge) != 0 {
			k.Fail("patch_size", "%d, want one of which %d make tiles of %d pixels", e.Patch, e.Merge, lfm2Tile)
		}
		e.squarePositions(k)
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, 1e-5
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		s := b.Beside(e.Merge * e.Merge)
		if b.Has("mm.input_norm.weight") {
			s = s.Norm(kernel.LayerNorm, "mm.input_norm")
		}
		s.Applied(kernel.GELUErf, "mm.1").Product("mm.2").Out()
	},
	// See Lfm2VlImageProcessor of transformers: max_pixels_tolerance 2, min_tiles 2, max_tiles 10.
	see: func(e *Encoder, p *picture.RGB) []Part {
		parts, unit := []Part{{Text: "<|image_start|>"}}, e.Patch*e.Merge
		w, h := prepare.Smart(p.Width, p.Height, unit, e.MinRows*unit*unit, e.MaxRows*unit*unit)
		if prepare.Nearby(p.Width, unit)*prepare.Nearby(p.Height, unit) > 2*e.MaxRows*unit*unit {
			g := prepare.Nearest(p.Width, p.Height, lfm2Tile, 2, 10)
			whole := prepare.Resize(p, lfm2Tile*g.Columns, lfm2Tile*g.Rows, prepare.Bilinear)
			for i, tile := range prepare.Cut(whole, g) {
				text := fmt.Sprintf("<|img_row_%d_col_%d|>", i/g.Columns+1, i%g.Columns+1)
				parts = append(parts, Part{Text: text}, Part{Input: e.resampled(tile, triangles)})
			}
			parts = append(parts, Part{Text: "<|img_thumbnail|>"})
		}
		overview := e.resampled(prepare.Resize(p, w, h, prepare.Bilinear), triangles)
		return append(parts, Part{Input: overview}, Part{Text: "<|image_end|>"})
	},
}

// lfm2Tile is the side of its tiles.
const lfm2Tile = 512
