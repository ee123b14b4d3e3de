package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// deepseekOCR is SAM over tiles and an overview, and CLIP over what its convolutions make of 16 patches. Rows are made of both side
// by side (DeepSeek-OCR, Wei et al. 2025). Behind each line of rows is the embedding of its end, and behind all that of a view's.
var deepseekOCR = Kind{
	Name:    "deepseekocr",
	unsized: true,
	config: func(e *Encoder, k *Keys) {
		k.Config.Norm, k.Config.Eps, e.Fn = kernel.LayerNorm, 1e-5, kernel.GELUQuick // of its publisher's: files have others
		for i := range k.Config.Layers {
			k.Config.Layers[i].Window = 1 // tokens see those of their tile
		}
		e.samKeys(k, 5) // 640 of 1024 pixels
		e.ocrTiles(k, 9)
		t := e.table(k, positions, k.Config.NEmbd)
		e.readClass(k, t)
		all := table{columns: t.columns, rows: t.rows - 1, v: t.v[t.columns:]}
		if all.side() == 0 {
			k.Check(fmt.Errorf("tensor %q: %d rows, want those of a square, and one", positions, t.rows))
		}
		for i, n := range []int{e.sam.side, e.sam.small} {
			e.reduced[i] = resampledSquare(all, ((n+1)/2+1)/2)
		}
		e.breaks = [][]float32{e.table(k, newline, e.Width).row(0), e.table(k, viewEnd, e.Width).row(0)}
	},
	build: func(e *Encoder, b *Builder) {
		s, c := e.samLayers(b), e.Config
		var kept Keep
		s.Again(c, func() {
			kept = b.Keep(2)
			kept.Bring(1)
			b.BroughtAlone()
			b.Brought(c.NEmbd)
			b.Normalise("v.pre_ln")
		})
		e.layers(b, nil)
		kept.Put(0)
		kept.Strand().Product("mm.model.fc").Out()
	},
	// See DeepseekOCRProcessor and _pixel_values_to_embedding of its publisher's code.
	see: func(e *Encoder, p *picture.RGB) (parts []Part) {
		tiles, g, whole := e.ocrViews(p)
		for y := range g.Rows {
			parts = append(parts, Part{Input: e.ocrInput(tiles[y*g.Columns:][:g.Columns])})
		}
		in := e.ocrInput([]*picture.RGB{whole})
		in.Order = append(in.Order, -2)
		return append(parts, Part{Input: in}, Part{Text: "\n"})
	},
}

// deepseekOCR2 is SAM over tiles and an overview, and Qwen 2 over what its convolutions make of 16 patches and as many queries, which
// see them all and the queries before. They become rows (DeepSeek-OCR 2, Wei et al. 2026).
var deepseekOCR2 = Kind{
	Name:    "deepseekocr2",
	unsized: true,
	config: func(e *Encoder, k *Keys) {
		c := k.Config
		c.Norm, c.Eps, e.Fn, e.Gated = kernel.RMS, 1e-6, kernel.SiLU, true
		for i := range c.Layers {
			l := &c.Layers[i]
			if l.NHeadKV = k.Int("attention.head_count_kv", 1, l.NHead); l.NHead%l.NHeadKV != 0 {
				k.Fail("attention.head_count_kv", "%d, want a divisor of the %d heads", l.NHeadKV, l.NHead)
			}
			l.Window = 1
			l.Rope = Rope{Style: kernel.RopeNeox, NRot: l.HeadDim, Base: 1e6, Scaling: NoScaling}
		}
		e.samKeys(k, 6) // 768 of 1024 pixels
		e.ocrTiles(k, 6)
		for i, n := range []int{e.sam.side, e.sam.small} {
			name := fmt.Sprintf("v.resample_query_%d.weight", []int{1024, 768}[i])
			n = ((n+1)/2 + 1) / 2
			if e.byView[i] = e.table(k, name, c.NEmbd); e.byView[i].rows != n*n {
				k.Check(fmt.Errorf("tensor %q: %d rows, want %d", name, e.byView[i].rows, n*n))
			}
		}
		e.breaks = [][]float32{e.table(k, viewEnd, e.Width).row(0)}
	},
	build: func(e *Encoder, b *Builder) {
		s, c := e.samLayers(b), e.Config
		s.Again(c, func() {
			b.BroughtAlone()
			b.Brought(c.NEmbd)
			b.Rotations()
		})
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		b.Beside(1).Product("mm.model.fc").Out()
	},
	see: func(e *Encoder, p *picture.RGB) (parts []Part) {
		tiles, _, whole := e.ocrViews(p)
		for _, one := range append(tiles, whole) {
			parts = append(parts, Part{Input: e.queriedInput(one)})
		}
		in := parts[len(parts)-1].Input
		in.Order, in.Breaks = append(in.Order, -1), e.breaks
		return append(parts, Part{Text: "\n"})
	},
}

// viewEnd is the tensor with the embedding of what is behind a picture, which is so called in files.
const viewEnd = "v.view_seperator"

// ocrViews returns the tiles of a picture, none if it is no larger than one, and the picture as it is seen whole.
func (e *Encoder) ocrViews(p *picture.RGB) (tiles []*picture.RGB, g prepare.Grid, whole *picture.RGB) {
	if tile := e.sam.small * e.Patch; p.Width > tile || p.Height > tile {
		g = prepare.Nearest(p.Width, p.Height, tile, e.Least, e.Most)
		tiles = prepare.Cut(prepare.Resize(p, g.Columns*tile, g.Rows*tile, prepare.Bicubic), g)
	}
	return tiles, g, prepare.Framed(p, e.Side, e.Side, prepare.Bicubic, [3]byte{127, 127, 127})
}

// queriedInput returns the input of a picture whose queries become rows.
func (e *Encoder) queriedInput(p *picture.RGB) *Input {
	in, last, side := e.samInput([]*picture.RGB{p})
	n, made := e.Config.NEmbd, side*side
	queries := e.byView[0]
	if p.Width != e.Side {
		queries = e.byView[1]
	}
	asked := &Input{Tokens: 2 * made, Columns: 2 * n}
	asked.From = func(i int) []int32 {
		if i >= made {
			return []int32{-1}
		}
		return []int32{int32(i)}
	}
	asked.Row = func(dst []float32, i int) {
		if clear(dst); i >= made {
			copy(dst[n:], queries.row(i-made))
		}
	}
	asked.Sees = func(i int) (from, to int) { return 0, max(i, made-1) }
	last.Again, in.Made = asked, asked.Tokens
	for i := range made {
		in.Order = append(in.Order, int32(made+i))
	}
	return in
}

// ocrTiles reads into how many tiles pictures are cut.
func (e *Encoder) ocrTiles(k *Keys, most int) {
	e.Least = k.IntOr("preproc_min_tiles", 2, 1, maxTiles)
	e.Most = k.IntOr("preproc_max_tiles", max(most, e.Least), e.Least, maxTiles)
	e.checkTiles(k, 1)
}

// ocrInput returns the input of pictures that are beside each other, whose rows are in lines over all of them.
func (e *Encoder) ocrInput(pictures []*picture.RGB) *Input {
	in, last, side := e.samInput(pictures)
	n, per := e.Config.NEmbd, side*side+1 // with the token for the whole picture
	set := 0
	if pictures[0].Width != e.Side {
		set = 1
	}
	clip := &Input{Tokens: per * len(pictures), Columns: 2 * n, Windows: windowsOf(per*len(pictures), per)}
	clip.From = func(i int) []int32 {
		if i%per == per-1 {
			return []int32{-1}
		}
		return []int32{int32(i/per*(per-1) + i%per)}
	}
	clip.Row = func(dst []float32, i int) {
		own := e.class[0]
		if at := i % per; at < per-1 {
			own = e.reduced[set][at]
		}
		copy(dst[n:], own)
	}
	last.Again = clip
	in.Made, in.Breaks = clip.Tokens, e.breaks
	for y := range side {
		for t := range pictures {
			for x := range side {
				in.Order = append(in.Order, int32(t*per+y*side+x))
			}
		}
		in.Order = append(in.Order, -1)
	}
	return in
}
