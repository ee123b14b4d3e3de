package projector

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// gemma4v is the encoder of pictures of Gemma 4 (2026): a ViT with norms around its sublayers, in which the embeddings of the
// column and of the row of a patch are added to it, and each turns a half of queries and keys.
var gemma4v = Kind{
	Name: "gemma4v",
	config: func(e *Encoder, k *Keys) {
		e.gemma4(k)
		e.Gated = true
		k.Config.Norm = kernel.RMS
		k.InHalves(kernel.RopeNeox, 100)
		for i := range k.Config.Layers {
			k.Config.Layers[i].AttnScale = 1
		}
		for c := range e.Mean { // pixels from -1 to 1, where the file has them from 0 to 1
			e.Mean[c], e.Std[c] = e.Mean[c]+e.Std[c]/2, e.Std[c]/2
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		b.TensorPrefix = "v."
		b.RowLayers(func(l Layer) {
			residual, clipped := l.Residual, l.Has("attn_q.input_min") // as in E2B and E4B
			if clipped {
				residual = func(norm string, h ...Sublayer) { l.ClippedResidual(norm, h[0]) }
			}
			residual("ln1", l.Attention(Attention{
				Out: "attn_out", QKNorm: NormCenteredOptional, ValueNorm: true, PostNorm: "attn_post_norm", Clipped: clipped,
			}))
			residual("ln2", l.FeedForward(FeedForward{Fn: e.Fn, PostNorm: "ffn_post_norm", Clipped: clipped}))
			l.OutputScale("out_scale.weight")
		}, nil)
		s := b.Mean(e.Merge * e.Merge).Times(float32(math.Sqrt(float64(b.Config.NEmbd))))
		s.Shifted("v.std_bias", "v.std_scale").Norm(kernel.RMS, "").Product("mm.input_projection").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return gemma4Parts(e.inPlace(p, e.input(p, e.tables[positions].columns, e.columnAndRow)))
	},
	bothWays: gemma4BothWays,
}

// gemma4uv has no transformer: patches of 48 pixels become rows by norms and two products (Gemma 4 12B).
var gemma4uv = Kind{
	Name: "gemma4uv",
	config: func(e *Encoder, k *Keys) {
		e.gemma4(k)
		k.Config.Norm, k.Config.PostEps = kernel.LayerNorm, k.Config.Eps
		k.Config.Eps = 1e-5 // of torch's LayerNorm
		e.Patch, e.Merge = e.Patch*e.Merge, 1
	},
	build: func(e *Encoder, b *Builder) {
		b.Patches(e.patchColumns(), "v.patch_norm.1", patchMatrix)
		b.Normalise("v.patch_norm.2")
		b.Brought(e.pixelColumns())
		b.Normalise("v.patch_norm.3")
		b.BegunRows()
		b.Mean(1).Norm(kernel.RMS, "").Product("mm.input_projection").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return gemma4Parts(e.input(p, e.tables[positions].columns, e.columnAndRow))
	},
	bothWays: gemma4BothWays,
}

// gemma4 reads what encoders of Gemma 4 have in common: two tables of positions in one tensor.
func (e *Encoder) gemma4(k *Keys) {
	e.Merge = k.IntOr("projector.scale_factor", 3, 1, maxMerge)
	e.MinRows, e.MaxRows = 70, 1120 // of the processor's sizes the least and the most
	e.FilmRows = 70
	t := e.table(k, positions, k.Config.NEmbd)
	e.MaxSide = t.rows / 2
	if t.rows%2 != 0 || e.MaxSide < e.Merge {
		k.Fail("projector.scale_factor", "%d, for embeddings of %d columns and rows of patches", e.Merge, e.MaxSide)
	}
}

// columnAndRow writes the embedding of the place of a patch.
func (e *Encoder) columnAndRow(dst []float32, x, y int) {
	t := e.tables[positions]
	copy(dst, t.row(x))
	t.add(dst, t.rows/2+y, 1)
}

func gemma4Parts(in *Input) []Part {
	return []Part{{Text: "<|image>"}, {Input: in}, {Text: "<image|>"}}
}

// gemma4BothWays is true but for E2B and E4B, by their widths.
func gemma4BothWays(width int) bool { return width != 1536 && width != 2560 }
