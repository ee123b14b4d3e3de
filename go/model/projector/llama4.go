package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// llama4 is a transformer over tiles and an overview whose patches also turn by their places, and of whose patches squares
// become rows (Llama 4, 2025).
var llama4 = Kind{
	Name: "llama4",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 2, 1, maxMerge)
		for columns := 1; columns <= 3; columns++ {
			for rows := 1; rows <= 3; rows++ {
				if columns*rows > 1 {
					e.Grids = append(e.Grids, prepare.Grid{Columns: columns, Rows: rows})
				}
			}
		}
		e.checkTiles(k, 9)
		e.exactGELU()
		e.LastClass = true
		e.fixedPositions(k)
		k.Config.Norm = kernel.LayerNorm
		k.InPlane(kernel.RopeNorm, 10000, Plane{Axes: [2]int32{Across, Down}}) // rope_theta of its encoders
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		s := b.Beside(e.Merge*e.Merge).Applied(kernel.GELUErf, "mm.model.mlp.1").Applied(kernel.GELUErf, "mm.model.mlp.2")
		s.Product("mm.model.fc").Out()
	},
	// See Llama4Processor of transformers.
	see: func(e *Encoder, p *picture.RGB) []Part {
		parts := []Part{{Text: "<|image_start|>"}}
		tiles, g := e.tiled(p)
		for i, tile := range tiles {
			switch {
			case len(tiles) == 1:
			case i == len(tiles)-1:
				parts = append(parts, Part{Text: "<|tile_y_separator|>", Known: true})
			case i > 0 && i%g.Columns == 0:
				parts = append(parts, Part{Text: "<|tile_y_separator|>", Known: true})
			case i > 0:
				parts = append(parts, Part{Text: "<|tile_x_separator|>", Known: true})
			}
			if i == len(tiles)-1 {
				parts = append(parts, Part{Text: "<|image|>", Known: true})
			}
			parts = append(parts, Part{Input: e.llama4Input(tile)})
		}
		return append(parts, Part{Text: "<|image_end|>"})
	},
}

// llama4Input returns the input of a tile. Its patches are further on by 1 on both axes than the token for the whole picture.
func (e *Encoder) llama4Input(p *picture.RGB) *Input {
	in, g := e.fixed(p), e.patched(p)
	in.Place = func(i int) (at [kernel.Axes]int32) {
		if i < g.n() {
			x, y := g.at(i)
			at[Across], at[Down] = int32(x+1), int32(y+1)
		}
		return at
	}
	return in
}
