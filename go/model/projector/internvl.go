package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// internvl is InternViT over tiles and an overview, of whose patches squares become rows (Chen et al. 2024).
var internvl = Kind{
	Name: "internvl",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("projector.scale_factor", 2, 1, maxMerge)
		least := k.IntOr("preproc_min_tiles", 1, 1, maxTiles)
		most := k.IntOr("preproc_max_tiles", max(12, least), least, maxTiles) // InternVL's processor has 12
		e.checkTiles(k, most)
		e.Grids = prepare.Grids(least, most)
		e.fixedPositions(k)
		e.exactGELU()
		e.QKNorm = NormRowOptional
		k.Config.PostEps = 1e-5
		k.Config.Norm = e.layerNormOrRMS("v.blk.0.ln1")
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		s := b.Beside(e.Merge*e.Merge).Norm(kernel.LayerNorm, "mm.model.mlp.0")
		s.Applied(kernel.GELUErf, "mm.model.mlp.1").Product("mm.model.mlp.3").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		parts := []Part{{Text: "<img>"}}
		tiles, _ := e.tiled(p)
		for _, tile := range tiles {
			parts = append(parts, Part{Input: e.fixed(tile)})
		}
		return append(parts, Part{Text: "</img>"})
	},
}
