package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
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

// patchColumns is how many numbers a patch has.
func (e *Encoder) patchColumns() int { return 3 * e.Patch * e.Patch }

// patchesAndPositions is x = patches, plus the embeddings of positions that they bring.
func (e *Encoder) patchesAndPositions(b *Builder, names ...string) {
	b.Patches(e.patchColumns(), "", names...)
	b.Brought(e.patchColumns())
	b.BegunRows()
}

// Names of the matrices of patches. Encoders of films have one for each of two frames in succession, which are the same
// picture twice where it stands still.
const (
	patchMatrix  = "v.patch_embd.weight"
	secondMatrix = "v.patch_embd.weight.1"
)

// fixed returns the input of a square picture with its embeddings of positions.
func (e *Encoder) fixed(p *picture.RGB) *Input {
	t, n := e.tables[positions], e.Side/e.Patch
	return e.input(p, t.columns, func(dst []float32, x, y int) { copy(dst, t.row(y*n+x)) })
}

// sized returns a picture with sides that are multiples of those of the squares which rows are of, and with low to high rows.
func (e *Encoder) sized(p *picture.RGB) *picture.RGB {
	unit := e.Patch * e.Merge
	w, h := prepare.Smart(p.Width, p.Height, unit, e.MinRows*unit*unit, e.MaxRows*unit*unit)
	if e.MaxSide > 0 {
		most := e.MaxSide / e.Merge * unit
		w, h = min(w, most), min(h, most)
	}
	return prepare.Pad(p, w, h, prepare.Bicubic, [3]byte{})
}

// inPlace has an input say where its patches are.
func (e *Encoder) inPlace(p *picture.RGB, in *Input) *Input {
	g := e.patched(p)
	in.Place = func(i int) (at [kernel.Axes]int32) {
		x, y := g.at(i)
		at[Down], at[Across] = int32(y), int32(x)
		return at
	}
	return in
}

// layers adds pre-norm layers without a gate. after is called with the number of each.
func (e *Encoder) layers(b *Builder, after func(il int)) {
	b.TensorPrefix = e.Kind.sense.tensors()
	b.RowLayers(func(l Layer) {
		l.Residual("ln1", l.Attention(Attention{Out: "attn_out"}))
		l.Residual("ln2", l.FeedForward(FeedForward{Fn: e.Fn, Ungated: !e.Gated, Swapped: e.Swapped}))
	}, after)
}
