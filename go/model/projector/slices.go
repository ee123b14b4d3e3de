package projector

import (
	"math"

	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
)

// Pictures that are seen whole, and if they are large also in slices, of any sides (LLaVA-UHD, Xu et al. 2024), as the
// processors of MiniCPM-V cut them.

// maxSlices is max_slice_nums of its processors.
const maxSlices = 9

// sliced returns a picture of about as many pixels as the encoder's square, and its slices, of as many each, by rows.
func (e *Encoder) sliced(p *picture.RGB) (overview *picture.RGB, slices []*picture.RGB, g prepare.Grid) {
	g = e.sliceGrid(p.Width, p.Height)
	w, h := e.fill(float64(p.Width), float64(p.Height), g.Columns == 0)
	overview = prepare.Resize(p, w, h, prepare.Bicubic)
	if g.Columns == 0 {
		return overview, nil, g
	}
	of := func(n, parts int) float64 { return float64(max(prepare.Nearby(n, parts), parts)) / float64(parts) }
	w, h = e.fill(of(p.Width, g.Columns), of(p.Height, g.Rows), true)
	return overview, prepare.Cut(prepare.Resize(p, w*g.Columns, h*g.Rows, prepare.Bicubic), g), g
}

// fill returns the sides for a w x h picture: those of one of as many pixels as the square if it is larger, or is to grow,
// in units of rows.
func (e *Encoder) fill(w, h float64, grow bool) (int, int) {
	if area := float64(e.Side * e.Side); grow || w*h > area {
		ratio := w / h
		h = math.Floor(float64(e.Side) / math.Sqrt(ratio))
		w = math.Floor(h * ratio)
	}
	unit := e.Patch * e.Merge
	return max(prepare.Nearby(int(w), unit), unit), max(prepare.Nearby(int(h), unit), unit)
}

// sliceGrid returns into how many slices a w x h picture is cut, as the sides of squares are most alike; none if it is no
// larger than the square.
func (e *Encoder) sliceGrid(w, h int) (best prepare.Grid) {
	about := min(int(math.Ceil(float64(w)*float64(h)/float64(e.Side*e.Side))), maxSlices)
	if about <= 1 {
		return best
	}
	best = prepare.Grid{Columns: 1, Rows: 1}
	ratio, least := math.Log(float64(w)/float64(h)), math.Inf(1)
	for n := max(about-1, 2); n <= min(about+1, maxSlices); n++ {
		for rows := 1; rows <= n; rows++ {
			if n%rows != 0 {
				continue
			}
			g := prepare.Grid{Columns: n / rows, Rows: rows}
			off := math.Abs(ratio - math.Log(float64(g.Columns)/float64(g.Rows)))
			if off < least || off == least && g.Rows > best.Rows {
				best, least = g, off
			}
		}
	}
	return best
}

// sliceParts returns a picture and its slices between the fences of MiniCPM-V.
func (e *Encoder) sliceParts(p *picture.RGB, input func(*picture.RGB) *Input) []Part {
	overview, slices, g := e.sliced(p)
	parts := []Part{{Text: "<image>"}, {Input: input(overview)}, {Text: "</image>"}}
	before, after := "<slice>", "</slice>"
	if e.Nested && len(slices) > 0 {
		parts = append(parts, Part{Text: before})
		before, after = "<image>", "</image>"
	}
	for i, one := range slices {
		if i > 0 && i%g.Columns == 0 {
			parts = append(parts, Part{Text: "\n"})
		}
		parts = append(parts, Part{Text: before}, Part{Input: input(one)}, Part{Text: after})
	}
	if e.Nested && len(slices) > 0 {
		parts = append(parts, Part{Text: "</slice>"})
	}
	return parts
}
