package nn

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// Differential attention (Ye et al. 2024, "Differential Transformer"): the results of the second half of the heads, times
// lambda, are taken from those of the first, and what is left is normalised by head.

// difference computes it in place, in the first half of the columns of att.
func (l Layer) difference(att kernel.Buf) {
	half := l.NHead / 2 * l.ValueDim
	start := 0.8 - 0.6*exactmath.Pow(math.E, -0.3*float64(l.Index))
	l.Add(kernel.NormRows{
		Dst: att, Src: att, SrcCol: half, Cols: half, Segs: 1, Kind: kernel.NoNorm, Epilogue: kernel.Add,
		Scale: -float32(start + l.lambda("1") - l.lambda("2")),
	})
	l.Add(kernel.NormRows{
		Dst: att, Src: att, Cols: l.ValueDim, Segs: l.NHead / 2, Kind: l.Config.Norm, Eps: l.Config.Eps,
		Scale: float32(1 - start),
	})
}

// lambda is e to the product of two vectors; 1 without memory.
func (l Layer) lambda(of string) float64 {
	q, k := l.Vector("attn_lambda_q"+of+".weight", l.HeadDim), l.Vector("attn_lambda_k"+of+".weight", l.HeadDim)
	if q == nil || k == nil {
		return 1
	}
	sum := 0.0
	for i := range l.HeadDim {
		sum += float64(q[i]) * float64(k[i])
	}
	return min(exactmath.Pow(math.E, sum), math.MaxFloat32/4)
}
