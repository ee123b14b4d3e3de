package projector

import (
	"fmt"
	"slices"

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
	if !e.has(class) {
		e.placesOf(k, 0)
		return
	}
	e.readClass(k, e.placesOf(k, 1))
}

// placesOf reads embeddings of the positions of the patches of square pictures, and of so many other tokens.
func (e *Encoder) placesOf(k *Keys, others int) table {
	n := e.Side / e.Patch
	if e.Side%e.Patch != 0 || n%e.Merge != 0 {
		k.Fail("image_size", "%d, want a multiple of %d patches of %d", e.Side, e.Merge, e.Patch)
	}
	t := e.table(k, positions, k.Config.NEmbd)
	if want := n*n + others; t.rows != want {
		k.Fail("image_size", "%d, for %d embeddings of positions, want %d", e.Side, t.rows, want)
	}
	return t
}

// class is the tensor with the embedding of a token for the whole picture (Dosovitskiy et al. 2020).
const class = "v.class_embd"

// has reports whether the file has a tensor.
func (e *Encoder) has(name string) bool {
	_, ok := e.file.Tensor(name)
	return ok
}

// readClass reads what the token for the whole picture brings. It is the last of the tokens, so that those of the patches
// begin at 0; its position is the first one in files, or if LastClass the last.
func (e *Encoder) readClass(k *Keys, positions table) {
	e.readClasses(k)
	if len(e.class) != 1 {
		k.Check(fmt.Errorf("tensor %q: %d rows, want 1", class, len(e.class)))
	}
	if e.first = 1; e.LastClass {
		e.first = 0
		positions.add(e.class[0], positions.rows-1, 1)
	} else {
		positions.add(e.class[0], 0, 1)
	}
}

// readClasses reads what tokens for the whole picture bring, which have no positions.
func (e *Encoder) readClasses(k *Keys) {
	t := e.table(k, class, k.Config.NEmbd)
	if t.rows > maxClasses {
		k.Check(fmt.Errorf("tensor %q: %d rows, want at most %d", class, t.rows, maxClasses))
	}
	for i := range t.rows {
		row := slices.Clone(t.row(i))
		if e.has(patchBias) { // which is for patches, and added to all tokens
			e.table(k, patchBias, k.Config.NEmbd).add(row, 0, -1)
		}
		e.class = append(e.class, row)
	}
}

// maxClasses bounds how many tokens for the whole picture there are.
const maxClasses = 1 << 8

// patchColumns is how many numbers a patch has.
func (e *Encoder) patchColumns() int { return 3 * e.Patch * e.Patch }

// pixelColumns is how many numbers come with a token before those that are no pixels: a patch for each matrix.
func (e *Encoder) pixelColumns() int { return e.Frames * e.patchColumns() }

// patchesAndPositions is x = patches, plus the embeddings of positions that they bring.
func (e *Encoder) patchesAndPositions(b *Builder, names ...string) {
	b.Patches(e.patchColumns(), "", names...)
	b.Brought(e.pixelColumns())
	b.NormaliseOptional("v.pre_ln")
	b.BegunRows()
}

// Names of the tensors of patches. Encoders of films have a matrix for each of two frames in succession, which are the same
// picture twice where it stands still: see Film.
const (
	patchMatrix  = "v.patch_embd.weight"
	secondMatrix = "v.patch_embd.weight.1"
	patchBias    = "v.patch_embd.bias"
)

// fixed returns the input of a square picture with its embeddings of positions.
func (e *Encoder) fixed(p *picture.RGB) *Input {
	t, n := e.tables[positions], e.Side/e.Patch
	in := e.input(p, t.columns, func(dst []float32, x, y int) { copy(dst, t.row(e.first+y*n+x)) })
	if len(e.class) > 0 {
		e.addClass(in)
	}
	return in
}

// addClass adds the tokens for the whole picture, of which no rows are made.
func (e *Encoder) addClass(in *Input) {
	patches, row := in.Tokens, in.Row
	in.Tokens += len(e.class)
	in.Row = func(dst []float32, i int) {
		if i < patches {
			row(dst, i)
			return
		}
		clear(dst)
		own := e.class[i-patches]
		copy(dst[in.Columns-len(own):], own)
	}
}

// sized returns a picture with sides that are multiples of those of the squares which rows are of, and with low to high rows.
func (e *Encoder) sized(p *picture.RGB) *picture.RGB {
	w, h := e.size(p)
	return prepare.Pad(p, w, h, prepare.Bicubic, [3]byte{})
}

// stretched is sized of the whole picture, with nothing beside it.
func (e *Encoder) stretched(p *picture.RGB) *picture.RGB {
	w, h := e.size(p)
	return prepare.Resize(p, w, h, prepare.Bicubic)
}

// size returns the width and the height of sized.
func (e *Encoder) size(p *picture.RGB) (w, h int) {
	unit := e.Patch * e.Merge
	w, h = prepare.Smart(p.Width, p.Height, unit, e.MinRows*unit*unit, e.MaxRows*unit*unit)
	if e.MaxSide > 0 {
		most := e.MaxSide / e.Merge * unit
		w, h = min(w, most), min(h, most)
	}
	return w, h
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
	b.TensorPrefix = e.Kind.sense.Tensors()
	b.RowLayers(func(l Layer) {
		l.Residual("ln1", l.Attention(Attention{
			Out: "attn_out", QKNorm: e.QKNorm, PostScale: "ls1", Sinks: l.Has("attn_sinks"),
		}))
		l.Residual("ln2", l.FeedForward(FeedForward{
			Fn: e.Fn, Ungated: !e.Gated, Swapped: e.Swapped, PostScale: "ls2",
		}))
	}, after)
}

// layerNormOrRMS returns the kind of a norm, of which only one has biases.
func (e *Encoder) layerNormOrRMS(name string) kernel.NormKind {
	if e.has(name + ".bias") {
		return kernel.LayerNorm
	}
	return kernel.RMS
}

// features reads which layers' results are read: a list, or without one the layer before the last. Layers behind these are
// not run.
func (e *Encoder) features(k *Keys) {
	c := k.Config
	all := len(c.Layers)
	if all == 0 {
		k.Fail("block_count", "0, want at least 1")
	}
	last := all - 1
	if k.Has("feature_layer") {
		list, err := k.File.Ints(k.Name("feature_layer"))
		k.Check(err)
		for _, n := range list {
			if n < 1 || n > int64(all) || len(e.Features) > 0 && n <= int64(e.Features[len(e.Features)-1]) {
				k.Fail("feature_layer", "%v, want rising numbers of layers, 1 to %d", list, all)
			}
			e.Features = append(e.Features, int(n))
		}
		if len(e.Features) == 0 {
			k.Fail("feature_layer", "it is empty")
		}
		last = e.Features[len(e.Features)-1]
		e.Unread = append(e.Unread, "v.post_ln.")
	}
	for il := last; il < all; il++ {
		e.Unread = append(e.Unread, fmt.Sprintf("v.blk.%d.", il))
	}
	c.Layers = c.Layers[:last]
}

// chosenLayers adds the layers, and returns what those of Features make of each patch.
func (e *Encoder) chosenLayers(b *Builder) Strand {
	if e.Features == nil {
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		return b.Beside(1)
	}
	kept := b.Keep(len(e.Features))
	e.layers(b, func(il int) {
		if i := slices.Index(e.Features, il+1); i >= 0 {
			kept.Put(i)
		}
	})
	return kept.Strand()
}

// squarePositions reads embeddings of the positions of a square grid, which those of other sizes resample.
func (e *Encoder) squarePositions(k *Keys) {
	t := e.table(k, positions, k.Config.NEmbd)
	if t.side() == 0 {
		k.Check(fmt.Errorf("tensor %q: %d rows, want those of a square", positions, t.rows))
	}
}

// resampled returns the input of a picture with its embeddings of positions.
func (e *Encoder) resampled(p *picture.RGB, how func(n, m int) resampling) *Input {
	t, g := e.tables[positions], e.patched(p)
	x, y := how(t.side(), g.columns), how(t.side(), g.rows)
	return e.input(p, t.columns, func(dst []float32, column, row int) {
		clear(dst)
		t.addAt(dst, x[column], y[row])
	})
}

// exactGELU has feed-forwards with GELU use the form with erf, which files do not tell from the other.
func (e *Encoder) exactGELU() {
	if e.Fn == kernel.GELU {
		e.Fn = kernel.GELUErf
	}
}

// pixelLimits reads between how many pixels pictures have; otherwise it is so many rows.
func (e *Encoder) pixelLimits(k *Keys, low, high int) {
	each := e.Patch * e.Patch * e.Merge * e.Merge
	rows := func(key string, otherwise, least int) int {
		return max(k.IntOr(key, min(otherwise*each, maxPixels), 1, maxPixels)/each, least)
	}
	e.MinRows = rows("image_min_pixels", low, 1)
	e.MaxRows = rows("image_max_pixels", high, e.MinRows)
}
