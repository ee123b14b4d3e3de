package projector

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/media/picture"
	. "github.com/quern-llm/quern/go/model/nn"
)

// hunyuanvl is a transformer over pictures of any size, of whose patches a convolution makes rows (HunyuanOCR, 2025). Behind
// each row of a picture is the embedding of a line's end, and before and behind the picture those of its beginning and its end.
var hunyuanvl = Kind{
	Name: "hunyuanvl",
	config: func(e *Encoder, k *Keys) {
		e.Merge = k.IntOr("spatial_merge_size", 2, 1, maxMerge)
		e.pixelLimits(k, 256, 4096) // min_pixels and max_pixels of its processor, in rows
		e.squarePositions(k)
		e.exactGELU()
		k.Config.Norm = kernel.LayerNorm
		e.Unread = append(e.Unread, "v.view_seperator") // so called in files
		e.hunyuanBreaks(k)
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		n := e.Merge * e.Merge
		s := b.Beside(n).NormEach(kernel.RMS, e.Config.NEmbd, "mm.pre_norm").Merged("mm.0", n).Function(kernel.GELUErf)
		s.Product("mm.2").Product("mm.model.fc").Norm(kernel.RMS, "mm.post_norm").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part {
		p = e.stretched(p)
		in := e.resampled(p, func(n, m int) resampling { return linesBy(n, m, float64(m)+0.1) }) // as its publisher's code
		in.Breaks = e.breaks
		in.Order = append(in.Order, -2)
		for i := range in.Made {
			if in.Order = append(in.Order, int32(i)); (i+1)%in.Grid.Columns == 0 {
				in.Order = append(in.Order, -1)
			}
		}
		in.Order = append(in.Order, -3)
		in.Grid.Columns++
		return []Part{
			{Text: "<\uff5chy_place\u2581holder\u2581no\u2581100\uff5c>"}, {Input: in},
			{Text: "<\uff5chy_place\u2581holder\u2581no\u2581101\uff5c>"},
		}
	},
}

// hunyuanBreaks reads the rows that are the same in all pictures: those of the end of a line, which goes through the last
// product, and of the beginning and the end of a picture.
func (e *Encoder) hunyuanBreaks(k *Keys) {
	t, ok := e.file.Tensor(newline)
	if !ok || len(t.Dims) == 0 || t.Dims[0] == 0 || t.Dims[0] > MaxFF {
		k.Check(fmt.Errorf("tensor %q: missing, or not of 1 to %d numbers", newline, MaxFF))
	}
	end := e.table(k, newline, int(t.Dims[0]))
	last := e.read(k, "mm.model.fc.weight", end.columns)
	bias := make([]float32, e.Width)
	if e.has("mm.model.fc.bias") {
		copy(bias, e.read(k, "mm.model.fc.bias", e.Width).v)
	}
	if last.rows != e.Width {
		k.Check(fmt.Errorf("tensor %q: %d rows, want clip's projection_dim, %d", "mm.model.fc.weight", last.rows, e.Width))
	}
	line := make([]float32, e.Width)
	for i := range line {
		sum := float64(bias[i])
		for j, v := range last.row(i) {
			sum += float64(float64(v) * float64(end.v[j]))
		}
		line[i] = float32(sum)
	}
	e.breaks = [][]float32{line, e.table(k, "mm.image_begin", e.Width).row(0), e.table(k, "mm.image_end", e.Width).row(0)}
	weights := e.read(k, "mm.post_norm.weight", e.Width)
	for i, row := range e.breaks {
		e.breaks[i] = normalised(row, weights.row(0), float64(k.Config.Eps))
	}
}

// normalised returns a row divided by its root mean square, times weights.
func normalised(row, weights []float32, eps float64) []float32 {
	sum := 0.0
	for _, v := range row {
		sum += float64(float64(v) * float64(v))
	}
	scale := 1 / math.Sqrt(sum/float64(len(row))+eps)
	made := make([]float32, len(row))
	for i, v := range row {
		made[i] = float32(float64(v) * scale * float64(weights[i]))
	}
	return made
}
