package projector

import (
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// What transformers over patches (ViT, Dosovitskiy et al. 2020) have in common.

// positions is the tensor with the embeddings of positions.
const positions = "v.position_embd.weight"

// fixedPositions reads embeddings of the positions of the patches of square pictures of one size.
func (e *Encoder) fixedPositions(k *Keys) {
	n := e.Side / e.Patch
	if e.Side%e.Patch != 0 || n%e.Merge != 0 {
		k.Fail("image_size", "%d, want a multiple of %d patches of %d", e.Side, e.Merge, e.Patch)
	}
	if t := e.table(k, positions, k.Config.NEmbd); t.rows != n*n {
		k.Fail("image_size", "%d, for %d embeddings of positions, want %d", e.Side, t.rows, n*n)
	}
}

// patchesAndPositions is x = patches, plus the embeddings of positions that they bring.
func (e *Encoder) patchesAndPositions(b *Builder) {
	n := 3 * e.Patch * e.Patch
	b.Patches(0, n, "v.patch_embd.weight")
	b.Brought(n)
	b.BegunRows()
}

// fixed returns the input of a square picture with its embeddings of positions.
func (e *Encoder) fixed(p *picture.RGB) *Input {
	t, n := e.tables[positions], e.Side/e.Patch
	return e.input(p, t.columns, func(dst []float32, x, y int) { copy(dst, t.row(y*n+x)) })
}

// layers adds pre-norm layers without a gate. after is called with the number of each.
func (e *Encoder) layers(b *Builder, after func(il int)) {
	b.TensorPrefix = "v."
	b.RowLayers(func(l Layer) {
		l.Residual("ln1", l.Attention(Attention{Out: "attn_out"}))
		l.Residual("ln2", l.FeedForward(FeedForward{Fn: e.Fn, Ungated: true, Swapped: e.Swapped}))
	}, after)
}
