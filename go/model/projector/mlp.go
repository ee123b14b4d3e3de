package projector

import (
	"fmt"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// mlp is CLIP or SigLIP and two products (LLaVA 1.5, Liu et al. 2023), which read what a layer before the last one makes, or
// of several layers what each makes. With a list of sizes, pictures are an overview and tiles (LLaVA 1.6).
var mlp = Kind{
	Name: "mlp",
	config: func(e *Encoder, k *Keys) {
		e.swapped(k, "v.")
		e.features(k)
		e.fixedPositions(k)
		e.pinpoints(k, false)
		k.Config.Norm = kernel.LayerNorm
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		s := e.chosenLayers(b)
		if b.Has("mm.3.weight") { // Yi-VL has norms behind both products
			s = s.Product("mm.0").Norm(kernel.LayerNorm, "mm.1").Function(kernel.GELUErf)
			s.Product("mm.3").Norm(kernel.LayerNorm, "mm.4").Out()
			return
		}
		s.Applied(kernel.GELUErf, "mm.0").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		if len(e.Grids) > 0 {
			return []Part{{Input: e.overviewAndTiles(p)}}
		}
		// The mean of CLIP's pictures, as LLaVA's expand2square fills with it.
		return []Part{{Input: e.fixed(prepare.Pad(p, e.Side, e.Side, prepare.Bicubic, [3]byte{122, 116, 104}))}}
	},
}

// newline is the tensor with the embedding of what is behind each row of tiles.
const newline = "v.image_newline"

// pinpoints reads the sizes of pictures that are cut into tiles, heights before widths, or if wide behind them.
func (e *Encoder) pinpoints(k *Keys, wide bool) {
	key := "image_grid_pinpoints"
	if !k.Has(key) {
		return
	}
	list, err := k.File.Ints(k.Name(key))
	k.Check(err)
	for i := 0; i+1 < len(list); i += 2 {
		h, w := list[i], list[i+1]
		if wide {
			h, w = w, h
		}
		if min(h, w) < 1 || max(h, w) > maxSide || h%int64(e.Side) != 0 || w%int64(e.Side) != 0 {
			k.Fail(key, "%d by %d, want multiples of %d up to %d", h, w, e.Side, maxSide)
		}
		g := prepare.Grid{Columns: int(w) / e.Side, Rows: int(h) / e.Side}
		e.checkTiles(k, g.Columns*g.Rows)
		e.Grids = append(e.Grids, g)
	}
	if len(list)%2 != 0 || len(list) == 0 {
		k.Fail(key, "%d numbers, want pairs", len(list))
	}
	for i := range k.Config.Layers {
		k.Config.Layers[i].Window = 1 // patches see those of their tile
	}
	if e.has(newline) {
		if t := e.table(k, newline, e.Width); t.rows != 1 {
			k.Check(fmt.Errorf("tensor %q: %d rows, want 1", newline, t.rows))
		}
	}
}

// overviewAndTiles returns the input of a picture whose tiles make one picture behind the overview, row by row, without what
// fills them: see LlavaNextImageProcessor and pack_image_features of transformers.
func (e *Encoder) overviewAndTiles(p *picture.RGB) *Input {
	in, g := e.withTiles(p)
	n, per := e.Side/e.Patch, in.Windows[0]
	in.Made = in.Tokens
	in.inRows(p, g, n, func(tile, x, y int) int { return tile*per + y*n + x })
	if t, ok := e.tables[newline]; ok {
		in.Breaks = [][]float32{t.row(0)}
		return in
	}
	in.Order = slices.DeleteFunc(in.Order, func(i int32) bool { return i < 0 })
	return in
}

// withTiles returns the input of the patches of an overview and of the tiles of a picture, each of which sees those of its own,
// and the grid of the tiles.
func (e *Encoder) withTiles(p *picture.RGB) (*Input, prepare.Grid) {
	whole, g := e.fitted(p)
	tiles := append([]*picture.RGB{prepare.Resize(p, e.Side, e.Side, prepare.Bicubic)}, prepare.Cut(whole, g)...)
	inputs := make([]*Input, len(tiles))
	for i, tile := range tiles {
		inputs[i] = e.fixed(tile)
	}
	per := inputs[0].Tokens
	in := &Input{Tokens: per * len(tiles), Columns: inputs[0].Columns}
	in.Row = func(dst []float32, i int) { inputs[i/per].Row(dst, i%per) }
	for range tiles {
		in.Windows = append(in.Windows, per)
	}
	return in, g
}

// inRows puts the rows of tiles, of n by n each, into the order of withTiles, without what only fills them: those of the
// overview, and those of the others row by row, with a break behind each. at is the number of a row.
func (in *Input) inRows(p *picture.RGB, g prepare.Grid, n int, at func(tile, x, y int) int) {
	for i := range n * n {
		in.Order = append(in.Order, int32(at(0, i%n, i/n)))
	}
	left, right, top, bottom := unfilled(p.Width, p.Height, n*g.Columns, n*g.Rows)
	for y := top; y < bottom; y++ {
		for x := left; x < right; x++ {
			in.Order = append(in.Order, int32(at(1+y/n*g.Columns+x/n, x%n, y%n)))
		}
		in.Order = append(in.Order, -1)
	}
}

// unfilled returns which columns and rows of patches have some of a w x h picture that is scaled into them: unpad_image.
func unfilled(w, h, columns, rows int) (left, right, top, bottom int) {
	shorter := func(n int, scale float64) int { return int(math.Round(float64(n)*scale*1e7) / 1e7) }
	if float64(w)/float64(h) > float64(columns)/float64(rows) {
		top = (rows - shorter(h, float64(columns)/float64(w))) / 2
	} else {
		left = (columns - shorter(w, float64(rows)/float64(h))) / 2
	}
	return left, columns - left, top, rows - top
}
