package nn

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Unfolded is x = a convolution of the rows that a token brings side by side, one for each of n taps: the product of the matrix
// that the file has with the taps of each channel in succession.
func (b *Builder) Unfolded(name string, of, n int) {
	in := n * of
	m := must(b.weights.Regrouped(name+".weight", in, b.Config.NEmbd, n))
	rows := b.Floats("unfolded", kernel.TokRows, in)
	act := b.Act("unfolded", kernel.TokRows, in, m)
	b.Add(kernel.Input{Dst: rows, Cols: in, Clear: true})
	b.Add(kernel.ToAct{Act: act, Src: rows, Cols: in})
	b.Add(kernel.Matmul{
		Dst: b.X(), Act: act, Parts: []kernel.Part{{Matrix: m, Bias: b.optional(name+".bias", b.Config.NEmbd)}},
	})
}

// Taps is x = a convolution of each channel on its own, plus the middle one of the rows that a token brings side by side, one
// for each tap. weights has a row for each tap.
func (b *Builder) Taps(name string, weights [][]float32, bias []float32) {
	b.Add(kernel.Input{Dst: b.X(), From: len(weights) / 2 * b.Config.NEmbd, Cols: b.Config.NEmbd, Clear: true})
	b.tapped(name, weights, bias, kernel.Add)
}

// tapped is Taps without the middle row: to says whether the first tap's is added to x, too.
func (b *Builder) tapped(name string, weights [][]float32, bias []float32, to kernel.Epilogue) {
	n := b.Config.NEmbd
	tap := b.Floats("tap", kernel.TokRows, n)
	for i, row := range weights {
		constants := func(what string, of []float32) []float32 {
			return b.constants(fmt.Sprintf("%s, %s %d", name, what, i), kernel.Pad(n), func(c int) float64 {
				if c >= len(of) {
					return 0
				}
				return float64(of[c])
			})
		}
		op := kernel.NormRows{
			Dst: b.X(), Src: tap, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Weight: constants("tap", row), Epilogue: kernel.Add,
		}
		if i == 0 {
			op.Epilogue = to
			if bias != nil {
				op.Bias = constants("bias", bias)
			}
		}
		b.Add(kernel.Input{Dst: tap, From: i * n, Cols: n, Clear: true})
		b.Add(op)
	}
}
