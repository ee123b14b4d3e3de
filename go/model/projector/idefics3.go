package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// idefics3 is SigLIP over tiles and an overview, of whose patches squares become rows (Laurençon et al. 2024): SmolVLM too.
var idefics3 = Kind{
	Name: "idefics3",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 2, 1, maxMerge)
		e.Edge = k.IntOr("preproc_image_size", e.Side, e.Side, maxSide)
		across := (e.Edge + e.Side - 1) / e.Side
		e.checkTiles(k, across*across)
		e.swapped(k, "v.")
		e.fixedPositions(k)
		k.Config.Norm = kernel.LayerNorm
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		b.Beside(e.Merge * e.Merge).Product("mm.model.fc").Out()
	},
	// See Idefics3ImageProcessor and Idefics3Processor of transformers.
	see: func(e *Encoder, p *picture.RGB) (parts []Part) {
		w, h := prepare.Even(p.Width, p.Height, e.Edge)
		p = prepare.Resize(p, w, h, prepare.Lanczos)
		w, h = prepare.Whole(w, h, e.Side)
		p = prepare.Resize(p, w, h, prepare.Lanczos)
		newline := ""
		if g := (prepare.Grid{Columns: w / e.Side, Rows: h / e.Side}); g != (prepare.Grid{Columns: 1, Rows: 1}) {
			for i, tile := range prepare.Cut(p, g) {
				row, column := i/g.Columns, i%g.Columns
				if newline = ""; row > 0 && column == 0 {
					newline = "\n"
				}
				text := fmt.Sprintf("%s<fake_token_around_image><row_%d_col_%d>", newline, row+1, column+1)
				parts = append(parts, Part{Text: text}, Part{Input: e.fixed(tile)})
			}
			newline = "\n\n"
		}
		return append(parts, Part{Text: newline + "<fake_token_around_image><global-img>"},
			Part{Input: e.fixed(prepare.Resize(p, e.Side, e.Side, prepare.Lanczos))}, Part{Text: "<fake_token_around_image>"})
	},
}
