package projector

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// granite4Vision is SigLIP over an overview and tiles. Of what some of its layers make, learned queries make rows: a Q-Former
// each, over windows of patches, whose queries begin with patches, or with the means of squares of them. The first one's are rows
// of the text model, and the others' are added in front of some of its layers (Granite Vision 4, IBM 2026).
var granite4Vision = Kind{
	Name: "granite4_vision",
	config: func(e *Encoder, k *Keys) {
		e.fixedPositions(k)
		e.pinpoints(k, true)
		if len(e.Grids) == 0 {
			k.Fail("image_grid_pinpoints", "missing: pictures are cut into tiles")
		}
		k.Config.Norm = kernel.LayerNorm
		e.granite4Taps(k)
		e.granite4Queries(k)
		t := e.table(k, newline, e.Width)
		line := make([]float32, 0, len(e.asked.taps)*e.Width)
		for range e.asked.taps {
			line = append(line, t.row(0)...)
		}
		e.breaks = [][]float32{line}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		a := &e.asked
		block := func(i int) string { return fmt.Sprintf("v.proj_blk.%d.", i) }
		kept := b.Keep(len(a.taps))
		e.layers(b, func(il int) {
			for i, tap := range a.taps {
				if tap == il {
					kept.PutNormed(i, block(i)+"norm")
				}
			}
		})
		kept.Strand().Again(nil, func() { kept.Weigh("what queries begin with", a.begin) })
		asking := *e.Config
		asking.Eps = qformerEps
		n := e.Config.NEmbd
		sizes := LayerConfig{NHead: n / granite4Head, NHeadKV: n / granite4Head, HeadDim: granite4Head, ValueDim: granite4Head, AttnScale: 0.125}
		next := &asking
		for at := range a.taps {
			i := (at + 1) % len(a.taps) // what is made last is the text model's rows
			kept.Strand().Again(next, func() { kept.BringPart(i, block(i)+"post_norm") })
			b.RowLayer(block(i), sizes, func(l Layer) { l.QFormer(n) })
			b.Beside(1).Product(block(i) + "linear").Out()
			next = nil
		}
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		in, g := e.withTiles(p)
		a := &e.asked
		side := e.Side / e.Patch
		across, per, small := side/a.window, side*side, a.window/a.queries
		seen, asks := a.window*a.window, a.queries*a.queries
		each := seen + asks
		// place returns the patch of token i, which is in a window of its tile, or the first of the square that a query begins with.
		place := func(i int) (first int, query bool) {
			w, j, n, step := i/each, i%each, a.window, 1
			if query = j >= seen; query {
				j, n, step = j-seen, a.queries, small
			}
			tile, w := w/(across*across), w%(across*across)
			x, y := w%across*a.window+j%n*step, w/across*a.window+j/n*step
			return tile*per + y*side + x, query
		}
		windows := len(in.Windows) * across * across
		last := &Input{Tokens: windows * each}
		last.From = func(i int) (all []int32) {
			first, query := place(i)
			for j := range small * small {
				at := first
				if query {
					at += j/small*side + j%small
				}
				all = append(all, int32(at))
			}
			return all
		}
		in.Again, in.Made, in.Breaks = last, last.Tokens, e.breaks
		for at := range a.taps {
			next := e.granite4Part((at+1)%len(a.taps), windows)
			last.Again, last = next, next
		}
		out := across * a.queries
		in.inRows(p, g, out, func(tile, x, y int) int {
			w := (tile*across+y/a.queries)*across + x/a.queries
			return w*each + seen + y%a.queries*a.queries + x%a.queries
		})
		return []Part{{Input: in}, {Text: "\n"}}
	},
}

// granite4Head is the width of the heads of its Q-Formers.
const granite4Head = 64

// asked is what Q-Formers over several layers of a picture have.
type asked struct {
	taps            []int       // the numbers of these layers
	window, queries int         // patches and queries of a side of a window
	begin           [][]float32 // of each patch of the square that a query begins with, how much each Q-Former takes
	places, ask     []table     // of each, what is added to patches and to queries
}

// granite4Taps reads which layers are asked, and what queries begin with.
func (e *Encoder) granite4Taps(k *Keys) {
	const layers, offsets = "feature_layer", "projector.spatial_offsets"
	a := &e.asked
	taps, err := k.File.Ints(k.Name(layers))
	k.Check(err)
	spots, err := k.File.Ints(k.Name(offsets))
	k.Check(err)
	n := len(k.Config.Layers)
	if len(taps) == 0 || len(taps) > maxStack || len(spots) != len(taps) {
		k.Fail(layers, "%d layers, and %d places in squares, want as many, 1 to %d", len(taps), len(spots), maxStack)
	}
	a.window = k.Int("projector.window_side", 1, maxMerge)
	a.queries = k.Int("projector.query_side", 1, a.window)
	side := e.Side / e.Patch
	if side%a.window != 0 || a.window%a.queries != 0 || k.Config.NEmbd%granite4Head != 0 {
		k.Fail("projector.window_side", "%d for %d queries of %d columns and %d patches a side, want a multiple of the first, of %d, and a "+
			"divisor", a.window, a.queries, k.Config.NEmbd, side, granite4Head)
	}
	square := a.window / a.queries * (a.window / a.queries)
	for j := range square {
		var all []float32
		for i, tap := range taps {
			if tap < 0 || tap >= int64(n) {
				k.Fail(layers, "%v, want numbers of layers, 0 to %d", taps, n-1)
			}
			switch {
			case spots[i] >= 0 && (square != 4 || spots[i] > 3):
				k.Fail(offsets, "%d in squares of %d patches, want -1, or one of 4", spots[i], square)
			case spots[i] < 0:
				all = append(all, 1/float32(square))
			case int64(j) == spots[i]:
				all = append(all, 1)
			default:
				all = append(all, 0)
			}
		}
		a.begin = append(a.begin, all)
	}
	for _, tap := range taps {
		a.taps = append(a.taps, int(tap))
	}
	last := slices.Max(a.taps) + 1
	for il := last; il < n; il++ {
		e.Unread = append(e.Unread, fmt.Sprintf("v.blk.%d.", il))
	}
	e.Unread = append(e.Unread, "v.post_ln.")
	k.Config.Layers = k.Config.Layers[:last]
}

// granite4Queries reads the queries, and the embeddings of the positions of patches in a window.
func (e *Encoder) granite4Queries(k *Keys) {
	a := &e.asked
	for i := range a.taps {
		for _, of := range []struct {
			name string
			side int
			to   *[]table
		}{{"img_pos", a.window, &a.places}, {"query", a.queries, &a.ask}} {
			name := fmt.Sprintf("v.proj_blk.%d.%s", i, of.name)
			t := e.table(k, name, k.Config.NEmbd)
			if t.rows != of.side*of.side {
				k.Check(fmt.Errorf("tensor %q: %d rows, want %d", name, t.rows, of.side*of.side))
			}
			*of.to = append(*of.to, t)
		}
	}
}

// granite4Part returns the input of Q-Former i.
func (e *Encoder) granite4Part(i, windows int) *Input {
	a, n := &e.asked, e.Config.NEmbd
	seen := a.window * a.window
	each, kept := seen+a.queries*a.queries, len(a.taps)*n
	in := &Input{Tokens: windows * each, Columns: kept + n + 2*kernel.Panel}
	for range windows {
		in.Windows = append(in.Windows, each)
	}
	in.Row = func(dst []float32, token int) {
		clear(dst)
		if j := token%each - seen; j >= 0 {
			copy(dst[kept:], a.ask[i].row(j))
			dst[kept+n+kernel.Panel] = unseen
		} else {
			copy(dst[kept:], a.places[i].row(token%each))
			dst[kept+n] = unseen
		}
	}
	return in
}
