package projector

import (
	"cmp"
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// step3vl is a transformer over windows of a picture and an overview, whose patches also turn by their places. Two convolutions
// over neighbours, with steps of two, make rows (Step3-VL, 2026).
var step3vl = Kind{
	Name: "step3vl",
	config: func(e *Encoder, k *Keys) {
		if n := k.IntOr("projector.scale_factor", 4, 1, maxMerge); n != 4 {
			k.Fail("projector.scale_factor", "%d, want 4", n)
		}
		e.Edge = k.IntOr("preproc_image_size", 3024, 1, maxSide) // max_image_size of its processor
		e.checkTiles(k, 1)
		if step3Window%e.Patch != 0 || e.Side%e.Patch != 0 {
			k.Fail("patch_size", "%d, want one of which some make %d pixels and %d", e.Patch, step3Window, e.Side)
		}
		e.squarePositions(k)
		k.Config.Norm = kernel.LayerNorm
		k.InPlane(kernel.RopeNorm, 10000, Plane{Axes: [2]int32{Across, Down}})
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		s := b.Beside(1)
		for i := range 2 {
			name := fmt.Sprintf("mm.%d", i)
			made, of := *e.Config, s.Width
			made.NEmbd = s.Rows(name)
			s.Again(&made, func() { b.Unfolded(name, of, taps3x3) })
			s = b.Beside(1)
		}
		s.Product("mm.model.fc").Out()
	},
	see: func(e *Encoder, p *picture.RGB) (parts []Part) {
		if w, h := p.Width, p.Height; min(w, h) < 32 && max(w, h) > 4*min(w, h) {
			p = prepare.Corner(p, max(w, h), max(w, h))
		}
		w, h := p.Width, p.Height
		if longer := max(w, h); longer > e.Edge {
			scale := float64(e.Edge) / float64(longer)
			w, h = max(int(float64(w)*scale), 1), max(int(float64(h)*scale), 1)
		}
		if window := e.windowOf(w, h); window > 0 {
			g := prepare.Grid{Columns: max(windowsIn(w, window), 1), Rows: max(windowsIn(h, window), 1)}
			whole := prepare.Resize(p, cmp.Or(windowsIn(w, window)*window, w), cmp.Or(windowsIn(h, window)*window, h), prepare.Bilinear)
			whole = prepare.Corner(whole, window*g.Columns, window*g.Rows) // PIL's crop fills with black
			for i, one := range prepare.Cut(whole, g) {
				if i > 0 && i%g.Columns == 0 {
					parts = append(parts, Part{Text: "<patch_newline>"})
				}
				one = prepare.Resize(one, step3Window, step3Window, prepare.Bilinear)
				parts = append(parts, Part{Text: "<patch_start>"}, Part{Input: e.step3Input(one)}, Part{Text: "<patch_end>"})
			}
		}
		p = prepare.Resize(prepare.Resize(p, w, h, prepare.Bilinear), e.Side, e.Side, prepare.Bilinear)
		return append(parts, Part{Text: "<im_start>"}, Part{Input: e.step3Input(p)}, Part{Text: "<im_end>"})
	},
}

// step3Window is the side of its windows, as the encoder sees them.
const step3Window = 504

// windowOf returns the side of the windows that a w x h picture is cut into; 0: it is not cut, as its processor has it.
func (e *Encoder) windowOf(w, h int) int {
	shorter, longer := min(w, h), max(w, h)
	switch {
	case longer > e.Side && longer <= 4*shorter:
		return step3Window
	case longer > e.Side:
		return min(shorter, step3Window)
	case 2*longer > 3*shorter:
		return shorter
	}
	return 0
}

// windowsIn returns how many windows a side of n pixels has, where a fifth of one is another; 0: it is shorter than one.
func windowsIn(n, window int) int {
	if n >= window && 5*(n%window) > window {
		return n/window + 1
	}
	return n / window
}

// step3Input returns the input of a picture, over whose patches two convolutions go.
func (e *Encoder) step3Input(p *picture.RGB) *Input {
	in, half := e.inPlace(p, e.resampled(p, lines)), func(n int) int { return (n + 1) / 2 }
	columns, rows := in.Grid.Columns, in.Grid.Rows
	last := in
	for range 2 {
		next := &Input{Tokens: half(columns) * half(rows), From: neighbours(columns, rows, 2)}
		columns, rows = half(columns), half(rows)
		last.Again, last = next, next
	}
	in.Made = columns * rows
	in.Grid.Columns, in.Grid.Rows = columns, rows
	return in
}
