package projector

import (
	"fmt"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"

	"github.com/quern-llm/quern/go/media/picture"
)

// resampler is SigLIP over a picture and its slices, of each of which learned queries make a row by attention to its patches
// (MiniCPM-V 2.5 to 4.5, Yao et al. 2024).
var resampler = Kind{
	Name: "resampler",
	config: func(e *Encoder, k *Keys) {
		e.checkTiles(k, maxSlices+1)
		e.swapped(k, "v.")
		e.squarePositions(k)
		k.Config.Norm = kernel.LayerNorm
		if e.Width%resamplerHead != 0 {
			k.Check(fmt.Errorf("tensor %q: rows of %d numbers, want a multiple of %d", "resampler.proj.weight", e.Width, resamplerHead))
		}
		version, err := k.File.Int("clip.minicpmv_version")
		e.Nested = err != nil || version == 0 || version == 2
		e.Unread = append(e.Unread, "resampler.pos_embed") // which is computed
		e.resamplerQueries(k)
		for i := range e.Width / 4 {
			x := exactmath.Pow(10000, -float64(i)/float64(e.Width/4))
			e.waves = append(e.waves, [2]float64{exactmath.Sin(x), exactmath.Cos(x)})
		}
	},
	build: func(e *Encoder, b *Builder) {
		e.patchesAndPositions(b, patchMatrix)
		e.layers(b, nil)
		b.Normalise("v.post_ln")
		n := e.Width / resamplerHead
		sizes := LayerConfig{
			NHead: n, NHeadKV: n, HeadDim: resamplerHead, ValueDim: resamplerHead, AttnScale: 0.08838834764831845, // 1 / sqrt(128)
		}
		asking := *e.Config
		asking.NEmbd, asking.Layers = e.Width, []LayerConfig{sizes}
		s := b.Beside(1).Product("resampler.kv").Norm(kernel.LayerNorm, "resampler.ln_kv")
		s.Again(&asking, b.Keys)
		b.RowLayer("resampler.attn.", sizes, Layer.Asking)
		b.Beside(1).Norm(kernel.LayerNorm, "resampler.ln_post").Product("resampler.proj").Out()
	},
	see: func(e *Encoder, p *picture.RGB) []Part { return e.sliceParts(p, e.resamplerInput) },
}

// resamplerHead is the width of the heads of its attention.
const resamplerHead = 128

// maxQueries bounds how many queries there are.
const maxQueries = 1 << 10

// resamplerQueries reads the queries, normalised.
func (e *Encoder) resamplerQueries(k *Keys) {
	const name, norm = "resampler.query", "resampler.ln_q"
	e.queries = e.table(k, name, e.Width)
	if e.queries.rows > maxQueries {
		k.Check(fmt.Errorf("tensor %q: %d rows, want at most %d", name, e.queries.rows, maxQueries))
	}
	weights, biases := e.table(k, norm+".weight", e.Width).row(0), e.table(k, norm+".bias", e.Width).row(0)
	for i := range e.queries.rows {
		row, sum := e.queries.row(i), 0.0
		for _, v := range row {
			sum += float64(v)
		}
		mean := sum / float64(len(row))
		for j, v := range row {
			row[j] = float32(float64(v) - mean)
		}
		for j, v := range normalised(row, weights, float64(k.Config.Eps)) {
			row[j] = v + biases[j]
		}
	}
}

// resamplerInput returns the input of a picture or a slice, whose patches the queries ask.
func (e *Encoder) resamplerInput(p *picture.RGB) *Input {
	in, g, width := e.slicedInput(p), e.patched(p), e.Width
	in.Made, in.Grid.Columns, in.Grid.Rows = e.queries.rows, 0, 0
	places := e.waved(max(g.columns, g.rows))
	n := in.Tokens
	in.Again = &Input{Tokens: n + e.queries.rows, Columns: 2 * width, Seen: n, First: n}
	in.Again.Row = func(dst []float32, i int) {
		clear(dst)
		if i >= n {
			copy(dst, e.queries.row(i-n))
			return
		}
		x, y := g.at(i)
		copy(dst[width:], places[x])
		copy(dst[width+width/2:], places[y])
	}
	return in
}

// waved returns embeddings of positions 0 to n-1: sines, and then cosines, of waves of rising length (Vaswani et al. 2017).
// They are as exact as float32 is, and the same on all machines.
func (e *Encoder) waved(n int) [][]float32 {
	all, half := make([][]float32, n), len(e.waves)
	for i := range all {
		all[i] = make([]float32, 2*half)
	}
	for j, step := range e.waves {
		sin, cos := 0.0, 1.0
		for i := range all {
			all[i][j], all[i][half+j] = float32(sin), float32(cos)
			sin, cos = float64(sin*step[1])+float64(cos*step[0]), float64(cos*step[1])-float64(sin*step[0])
		}
	}
	return all
}
