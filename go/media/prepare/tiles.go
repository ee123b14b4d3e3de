package prepare

import (
	"cmp"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/media/picture"
)

// A Grid is how many tiles lie beside and below each other.
type Grid struct{ Columns, Rows int }

// Cut returns the tiles of a grid, row by row. The sides are multiples of those of the grid.
func Cut(p *picture.RGB, g Grid) []*picture.RGB {
	w, h := p.Width/g.Columns, p.Height/g.Rows
	list := make([]*picture.RGB, 0, g.Columns*g.Rows)
	for y := range g.Rows {
		for x := range g.Columns {
			list = append(list, Crop(p, x*w, y*h, w, h))
		}
	}
	return list
}

// Grids returns the grids of low to high tiles, those of fewer columns first.
func Grids(low, high int) []Grid {
	var list []Grid
	for columns := 1; columns <= high; columns++ {
		for rows := 1; columns*rows <= high; rows++ {
			if columns*rows >= low {
				list = append(list, Grid{columns, rows})
			}
		}
	}
	return list
}

// BestFit returns which of these sizes keeps the most pixels of a w x h picture that is scaled into it, and of several the
// one with the least room around: select_best_resolution of LLaVA 1.6.
func BestFit(w, h int, sizes [][2]int) int {
	best, most, least := 0, -1, math.MaxInt
	for i, size := range sizes {
		scale := min(float32(size[0])/float32(w), float32(size[1])/float32(h))
		kept := min(int(float32(w)*scale)*int(float32(h)*scale), w*h)
		room := size[0]*size[1] - kept
		if kept > most || kept == most && room < least {
			best, most, least = i, kept, room
		}
	}
	return best
}

// Nearest returns the grid whose proportions are nearest to those of a w x h picture, of low to high tiles of a side. Of
// grids in the same proportions it is the one with more tiles if the picture fills half of them: find_closest_aspect_ratio
// of InternVL and LFM2-VL.
func Nearest(w, h, side, low, high int) Grid {
	all := Grids(low, high)
	slices.SortStableFunc(all, func(a, b Grid) int { return cmp.Compare(a.Columns*a.Rows, b.Columns*b.Rows) })
	best, distance := Grid{1, 1}, float32(math.MaxFloat32)
	for _, g := range all {
		d := float32(w)/float32(h) - float32(g.Columns)/float32(g.Rows)
		d = max(d, -d)
		if d < distance || d == distance && float64(w)*float64(h) > 0.5*float64(side*side*g.Columns*g.Rows) {
			best, distance = g, d
		}
	}
	return best
}
