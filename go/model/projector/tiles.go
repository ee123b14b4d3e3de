package projector

import (
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// Pictures that are cut into tiles, which an encoder reads one by one.

// Limits of tiles. Files beyond them are corrupt.
const (
	maxTiles  = 64
	maxPixels = 1 << 26 // of all tiles
)

// checkTiles checks that so many tiles are of a size that can be.
func (e *Encoder) checkTiles(k *Keys, n int) {
	if n > maxTiles || n*e.Side*e.Side > maxPixels {
		k.Fail("image_size", "%d, for up to %d tiles, want at most %d with %d pixels", e.Side, n, maxTiles, maxPixels)
	}
}

// maxProbe bounds the pixels of the picture of Largest.
const maxProbe = 1 << 24

// Largest returns the largest input of a picture that is cut into as many tiles as there may be, whose tiles may be read at once;
// nil: pictures are not cut, or are too large to find out.
func (e *Encoder) Largest() (largest *Input) {
	w, h := 0, 0
	for _, g := range e.Grids {
		if e.Side*e.Side*g.Columns*g.Rows > w*h {
			w, h = e.Side*g.Columns, e.Side*g.Rows
		}
	}
	if e.Most > 0 { // beside each other
		h = e.sam.small * e.Patch
		w = h * e.Most
	}
	if w*h == 0 || w*h > maxProbe {
		return nil
	}
	for _, part := range e.See(&picture.RGB{Width: w, Height: h, Pix: make([]byte, 3*w*h)}) {
		if in := part.Input; in != nil && (largest == nil || in.Tokens > largest.Tokens) {
			largest = in
		}
	}
	return largest
}

// tiled returns the tiles of a picture, of one of the encoder's grids, and an overview behind them; the overview alone if the
// picture is no larger.
func (e *Encoder) tiled(p *picture.RGB) (tiles []*picture.RGB, g prepare.Grid) {
	overview := prepare.Resize(p, e.Side, e.Side, prepare.Bicubic)
	if p.Width <= e.Side && p.Height <= e.Side {
		return []*picture.RGB{overview}, g
	}
	whole, g := e.fitted(p)
	return append(prepare.Cut(whole, g), overview), g
}

// fitted returns a picture in the size of the grid that fits best, filled with black.
func (e *Encoder) fitted(p *picture.RGB) (*picture.RGB, prepare.Grid) {
	var sizes [][2]int
	for _, g := range e.Grids {
		sizes = append(sizes, [2]int{e.Side * g.Columns, e.Side * g.Rows})
	}
	i := prepare.BestFit(p.Width, p.Height, sizes)
	return prepare.Pad(p, sizes[i][0], sizes[i][1], prepare.Bicubic, [3]byte{}), e.Grids[i]
}
