package nn

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// even moves what channels are larger by than others from a norm to the columns of the matrices that read it, where these
// lose bits at load.
//
// Activations of 8 bits have one scale for 32 channels, so a channel much larger than the others takes their precision. The
// weights of the norm are divided by powers of two, and the columns multiplied by them before they are rounded. The products
// are of the same numbers. SmoothQuant (Xiao et al. 2022) measures channels with data; here the weights of the norm tell
// their sizes.
func (l Layer) even(op *kernel.Norm, norm string, mats []kernel.Matrix) {
	if len(mats) == 0 || l.Config.BareNorms {
		return
	}
	by, ok := l.weights.Even(l.prefix+norm+".weight", mats...)
	if !ok {
		return
	}
	divided := func(name string, v []float32) []float32 {
		return l.constants(name+" divided", kernel.Pad(op.Cols), func(i int) float64 {
			if i >= op.Cols {
				return 0
			}
			return float64(v[i] / by[i])
		})
	}
	op.Weight = divided(norm+".weight", op.Weight)
	if l.Has(norm + ".bias") {
		op.Bias = divided(norm+".bias", op.Bias)
	}
}

// EvenFactors writes powers of two by which columns are multiplied and the weights of a norm divided, so that what the ones
// are larger by than the others, relative to their medians, is shared by both. columns has the squares of the columns.
// Channels that a norm makes small stay: they may be large before it.
func EvenFactors(by, weights []float32, columns []float64) {
	sizes := make([]float64, len(weights))
	for c, w := range weights {
		sizes[c] = square(w) / columns[c]
	}
	for c, e := range exponents(sizes, 4) {
		by[c] = float32(math.Ldexp(1, max(e, 0)))
	}
}
