package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
)

// A grid is the patches of a picture, in the order of tokens: of each row that is made of several, those of the square that it
// is made of are in succession.
type grid struct {
	columns, rows int // of patches
	merge         int // of a side of a square
	inner         int // of a side of the squares that those of a square are in, in their turn; 0: they are in none
}

// patched returns the grid of a picture whose sides are multiples of those of its squares.
func (e *Encoder) patched(p *picture.RGB) grid {
	return grid{p.Width / e.Patch, p.Height / e.Patch, e.Merge, e.Inner}
}

// at returns the column and the row of the patch of token i.
func (g grid) at(i int) (x, y int) {
	square, in := i/(g.merge*g.merge), i%(g.merge*g.merge)
	across := g.columns / g.merge
	x, y = in%g.merge, in/g.merge
	if n := g.inner; n > 0 {
		small, in := in/(n*n), in%(n*n)
		x, y = small%(g.merge/n)*n+in%n, small/(g.merge/n)*n+in/n
	}
	return square%across*g.merge + x, square/across*g.merge + y
}

// n returns how many there are.
func (g grid) n() int { return g.columns * g.rows }

// input returns the input of a picture, whose rows are those of patches, and behind them what more writes of `columns`
// columns; nil: nothing.
func (e *Encoder) input(p *picture.RGB, columns int, more func(dst []float32, x, y int)) *Input {
	g := e.patched(p)
	in := &Input{Tokens: g.n(), Columns: e.pixelColumns() + columns, Made: g.n() / (e.Merge * e.Merge)}
	in.Grid.Columns, in.Grid.Rows = g.columns/e.Merge, g.rows/e.Merge
	shade := e.shades()
	var second *picture.RGB
	if e.second != nil {
		second = e.sized(e.second)
	}
	in.Row = func(dst []float32, i int) {
		x, y := g.at(i)
		one := e.patchColumns()
		e.patch(dst, p, &shade, x, y)
		switch {
		case second != nil:
			e.patch(dst[one:], second, &shade, x, y)
		case e.Frames > 1:
			copy(dst[one:2*one], dst[:one])
		}
		if more != nil {
			more(dst[e.pixelColumns():], x, y)
		}
	}
	return in
}

// reordered returns the input with its groups of n tokens, of which a row is made each, in another order, which windows are
// of. The rows that are made keep theirs.
func (in *Input) reordered(order []int, n int, windows []int) *Input {
	row, place := in.Row, in.Place
	old := func(i int) int { return order[i/n]*n + i%n }
	in.Row = func(dst []float32, i int) { row(dst, old(i)) }
	in.Place = func(i int) [kernel.Axes]int32 { return place(old(i)) }
	in.Windows, in.Order = windows, make([]int32, len(order))
	for at, group := range order {
		in.Order[group] = int32(at)
	}
	return in
}

// shades returns what a byte of each channel is to the encoder, in the float32 of the processors.
func (e *Encoder) shades() (s [3][256]float32) {
	for c := range s {
		for v := range s[c] {
			s[c][v] = float32(float32(v)/255-e.Mean[c]) / e.Std[c]
		}
	}
	return s
}

// patch writes the pixels of a patch: all rows of red, then those of green, then of blue; or with ByPixel pixel by pixel.
func (e *Encoder) patch(dst []float32, p *picture.RGB, shade *[3][256]float32, x, y int) {
	n := e.Patch
	for row := range n {
		src := p.Pix[3*((y*n+row)*p.Width+x*n):][:3*n]
		if e.ByPixel {
			for i, v := range src {
				dst[3*n*row+i] = shade[i%3][v]
			}
			continue
		}
		for c := range 3 {
			to := dst[(c*n+row)*n:][:n]
			for i := range to {
				to[i] = shade[c][src[3*i+c]]
			}
		}
	}
}
