package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// glm4v is a transformer over pictures of any size whose patches also turn by their places; a convolution makes a row of each
// square of them, and a gated feed-forward follows (GLM-4.1V, 2025).
var glm4v = Kind{
	Name: "glm4v",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
		e.MinRows, e.MaxRows = 8, 4096
		e.Frames = 2
		if e.has(positions) { // GLM-OCR's has none
			e.squarePositions(k)
		}
		if t, ok := e.file.Tensor("v.blk.0.ffn_up.weight"); ok && len(t.Dims) == 2 && t.Dims[1] <= MaxFF {
			for i := range k.Config.Layers { // the key is of the feed-forward behind the layers
				k.Config.Layers[i].NFF = int(t.Dims[1])
			}
		}
		k.Config.PostEps = 1e-5
		e.QKNorm, e.Gated = NormHeadOptional, true
		k.InPlane(kernel.RopeNeox, 10000, Plane{Axes: [2]int32{Down, Across}})
	},
	build: func(e *Encoder, b *Builder) {
		b.Patches(e.patchColumns(), "", patchMatrix, secondMatrix)
		if b.Has("v.norm_embd.weight") {
			b.Normalise("v.norm_embd")
		}
		if e.has(positions) {
			b.Brought(e.pixelColumns())
		}
		b.BegunRows()
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		s := b.Beside(e.Merge*e.Merge).Merged("mm.patch_merger", e.Merge*e.Merge).Product("mm.model.fc")
		s = s.Norm(kernel.LayerNorm, "mm.post_norm").Function(kernel.GELUErf)
		s.Gated(kernel.SiLU, "mm.gate", "mm.up").Product("mm.down").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		in := e.input(p, 0, nil)
		if e.has(positions) {
			in = e.resampled(p, cubics)
		}
		return []Part{{Text: "<|begin_of_image|>"}, {Input: e.inPlace(p, in)}, {Text: "<|end_of_image|>"}}
	},
}
