package projector

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/prepare"
	. "github.com/quern-llm/quern/go/model/nn"
)

// museglimmer is a transformer over pictures of any size whose patches also turn by their places, see in most layers those of
// their window alone, and of which squares become rows (Muse Glimmer, 2026).
var museglimmer = Kind{
	Name: "muse-glimmer",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
		e.MinRows, e.MaxRows = 1, 4096
		e.squarePositions(k)
		side := e.tables[positions].side()
		if e.Window = side / e.Merge; side%e.Merge != 0 {
			k.Fail("spatial_merge_size", "%d, want a divisor of the %d positions of a side", e.Merge, side)
		}
		e.Fn = kernel.GELUErf
		k.Config.Norm = kernel.LayerNorm
		for il := range k.Config.Layers {
			if (il+1)%4 != 0 && il+1 < len(k.Config.Layers) {
				k.Config.Layers[il].Window = e.Window
			}
		}
		k.InPlane(kernel.RopeNorm, 10000, Plane{Axes: [2]int32{Across, Down}})
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.NormaliseOptional("v.post_ln")
		n := e.Merge * e.Merge
		b.Beside(n).Merged("mm.0", n).Function(kernel.GELUErf).Applied(kernel.GELUErf, "mm.1").Product("mm.2").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		w, h := e.alike(p.Width, p.Height)
		p = prepare.Resize(p, w, h, prepare.Lanczos)
		in := e.windowed(p, e.resampled(p, lines))
		place := in.Place
		in.Place = func(i int) [kernel.Axes]int32 {
			at := place(i)
			at[Across]++
			at[Down]++
			return at
		}
		return []Part{{Text: "<|image_start|>"}, {Input: in}, {Text: "<|image_end|>"}}
	},
}

// alike returns the sides of a picture in whole rows, at most MaxRows of them, that are most like those of a w x h one.
func (e *Encoder) alike(w, h int) (int, int) {
	unit := e.Patch * e.Merge
	across, down := float64(w)/float64(unit), float64(h)/float64(unit)
	if ratio := across / down; float64(across*down) > float64(e.MaxRows) {
		down = math.Sqrt(float64(e.MaxRows) / ratio)
		across = down * ratio
	}
	x, y, least := 0, 0, 0.0
	for _, rows := range []float64{math.Floor(down), math.Ceil(down)} {
		for _, columns := range []float64{math.Floor(across), math.Ceil(across)} {
			if rows < 1 || columns < 1 || int(rows*columns) > e.MaxRows {
				continue
			}
			off := math.Abs(rows/columns - float64(h)/float64(w))
			if x == 0 || off < least || off == least && int(rows*columns) > x*y {
				x, y, least = int(columns), int(rows), off
			}
		}
	}
	if x == 0 { // it is longer than there are rows for
		x, y = min(max(int(math.Round(across)), 1), e.MaxRows), min(max(int(math.Round(down)), 1), e.MaxRows)
	}
	return x * unit, y * unit
}
