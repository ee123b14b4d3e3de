package projector

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// qwen2vl is the encoder of Qwen2-VL (Wang et al. 2024).
var qwen2vl = Kind{
	Name: "qwen2vl_merger",
	config: func(e *Encoder, k *Keys) {
		e.qwen(k)
		e.swapped(k, "v.")
		k.Config.Norm = kernel.LayerNorm
	},
	build: buildQwen2VL,
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return e.qwenParts(e.inPlace(p, e.input(p, 0, nil)))
	},
	film: func(e *Encoder, steps []Part, _ Film) []Part {
		return e.qwenFilm(steps, func(step int) int { return step })
	},
}

// qwen25vl is the encoder of Qwen2.5-VL (Bai et al. 2025): in most layers patches see those of their window alone.
var qwen25vl = Kind{
	Name: "qwen2.5vl_merger",
	config: func(e *Encoder, k *Keys) {
		e.qwen(k)
		e.swapped(k, "v.")
		k.Config.Norm, e.Gated = kernel.RMS, true
		e.windowedLayers(k, k.IntOr("n_wa_pattern", 0, 0, MaxLayer))
	},
	build: buildQwen2VL,
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.sized(p)
		return e.qwenParts(e.windowed(p, e.input(p, 0, nil)))
	},
	film: func(e *Encoder, steps []Part, f Film) []Part { // two places a second, as tokens_per_second of its configuration
		return e.qwenFilm(steps, func(step int) int { return int(2 * float64(step*e.Frames) / f.Rate) })
	},
}

// qwenFilm returns the steps of a film between the fences of a picture. Each is at a place in time of its own, and all begin
// at the same row and column.
func (e *Encoder) qwenFilm(steps []Part, time func(step int) int) []Part {
	parts := []Part{{Text: "<|vision_start|>"}}
	for i, step := range steps {
		in := *step.Input
		in.Step = Step{Before: i, Time: time(i), After: i + 1}
		if i == len(steps)-1 {
			in.Step.After = max(i+1, in.Step.Time+1, in.Grid.Columns, in.Grid.Rows)
		}
		parts = append(parts, Part{Input: &in})
	}
	return append(parts, Part{Text: "<|vision_end|>"})
}

func buildQwen2VL(e *Encoder, b *Builder) {
	b.Patches(e.patchColumns(), "", patchMatrix, secondMatrix)
	b.BegunRows()
	e.layers(b, nil)
	b.Normalise("v.post_ln")
	b.Beside(e.Merge*e.Merge).Applied(kernel.GELUErf, "mm.0").Product("mm.2").Out()
}

// windowed returns the input of a picture with its patches window by window, and in them by squares.
func (e *Encoder) windowed(p *picture.RGB, in *Input) *Input {
	g, n := e.patched(p), e.Merge*e.Merge
	columns, rows := g.columns/g.merge, g.rows/g.merge
	var order []int // of squares
	var windows []int
	for y := 0; y < rows; y += e.Window {
		for x := 0; x < columns; x += e.Window {
			before := len(order)
			for row := y; row < min(y+e.Window, rows); row++ {
				for column := x; column < min(x+e.Window, columns); column++ {
					order = append(order, row*columns+column)
				}
			}
			windows = append(windows, n*(len(order)-before))
		}
	}
	return e.inPlace(p, in).reordered(order, n, windows)
}

// windowedLayers reads how large windows are, and has the layers see their own alone but for each n-th, or those that the file lists.
func (e *Encoder) windowedLayers(k *Keys, every int) {
	e.Window = k.IntOr("window_size", 112, e.Patch*e.Merge, maxSide) / (e.Patch * e.Merge)
	whole := map[int64]bool{}
	if key := "wa_layer_indexes"; k.Has(key) {
		list, err := k.File.Ints(k.Name(key))
		k.Check(err)
		for _, il := range list {
			whole[il] = true
		}
	}
	for il := range k.Config.Layers {
		if every > 0 && (il+1)%every != 0 || every == 0 && len(whole) > 0 && !whole[int64(il)] {
			k.Config.Layers[il].Window = e.Window
		}
	}
}
