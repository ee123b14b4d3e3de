package nn

import (
	"cmp"
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
)

// LightningAttention is attn_output(norm(attend(q, k, v)) * sigmoid(attn_gate(input))) (Qin et al. 2024), linear
// attention with constant decays per head: q, k and v are silu of projections, and each token adds k v' to a state. It
// is a state space whose steps are 1.
func (l Layer) LightningAttention() Sublayer {
	c, dim := l.Config, l.HeadDim
	width := l.NHead * dim
	var qkv []kernel.Part
	for i := range 3 {
		m := l.headRows("attn_qkv.weight", c.NEmbd, 3*dim, i*dim, dim, l.NHead)
		qkv = append(qkv, kernel.Part{Matrix: m, Col: i * width})
	}
	gate := l.Matrix("attn_gate.weight", c.NEmbd, width)
	out := l.Matrix("attn_output.weight", width, c.NEmbd)
	return Sublayer{In: append(matrices(qkv), gate), Run: func(act kernel.Act) {
		src, y := l.Floats("lightning", kernel.TokRows, 3*width), l.Floats("att", kernel.TokRows, width)
		steps := l.Floats("lightning.steps", kernel.TokRows, l.NHead)
		l.Add(kernel.Matmul{
			Dst: src, Act: l.Only(act, matrices(qkv)...), Parts: qkv, Epilogue: kernel.Apply,
			Fn: kernel.SiLU,
		})
		none := l.Builder.constants("none", c.NEmbd, func(int) float64 { return 0 })
		l.Add(kernel.NormRows{
			Dst: steps, Src: src, Cols: l.NHead, Segs: 1, Kind: kernel.NoNorm, Scale: 1, Weight: none,
		})
		group, offset := l.state(recurrent(kernel.ScanBytes(l.NHead, dim, dim)))
		l.Add(kernel.Scan{
			Dst: y, Src: src, Col: [3]int{2 * width, width, 0}, Steps: steps, NHead: l.NHead, NGroup: l.NHead,
			StateDim: dim, HeadDim: dim,
			Group: group, Offset: offset, Skip: none,
			// whose softplus is 1
			Bias: l.Builder.constants("lightning.one", l.NHead, func(int) float64 { return math.Log(math.E - 1) }),
			Rate: l.constants("lightning.rates", l.NHead, l.slope),
		})
		l.Add(kernel.NormRows{
			Dst: y, Src: y, Cols: width, Segs: 1, Kind: c.Norm, Eps: cmp.Or(c.LinearEps, c.Eps), Scale: 1,
			Weight: l.Vector("attn_norm_2.weight", width),
		})
		l.open(act, gate, kernel.Gate{Dst: y, Cols: width, Fn: kernel.Sigmoid})
		outAct := l.Act("att", kernel.TokRows, width, out)
		l.Add(kernel.ToAct{Act: outAct, Src: y, Cols: width})
		l.result(outAct, kernel.Part{Matrix: out}, "")
	}}
}

// slope is the logarithm of the decay of a head: an ALiBi slope, smaller in later layers.
func (l Layer) slope(head int) float64 {
	depth := float64(l.Index) / float64(max(len(l.Config.Layers)-1, 1))
	return -exactmath.Pow(2, -8*float64(head+1)/float64(l.NHead)) * (1 - depth + 1e-5)
}
