package nn

import "github.com/quern-llm/quern/go/kernel"

// An Adjugate is the sizes of adjugate experts (Wu et al. 2025, "GroveMoE"): small experts, each shared by neighbours
// among the others. The zero value is none.
type Adjugate struct {
	Of    int     // experts that share one
	NFF   int     // feed-forward width
	Scale float32 // of what it makes
}

// adjugates returns their matrices, and a function that adds their results to x, given the input of pairs.
func (l Layer) adjugates() (in []kernel.Matrix, add func(pairs kernel.Act, route kernel.Buf)) {
	c, n := l.Config, l.Config.Adjugate
	if n.Of == 0 {
		return nil, func(kernel.Act, kernel.Buf) {}
	}
	bind := func(name string, in, out int) kernel.Part {
		m := l.matrices(name+"_chexps.weight", in, out, c.NExpert/n.Of)
		return kernel.Part{Matrix: m}
	}
	parts := []kernel.Part{bind("ffn_gate", c.NEmbd, n.NFF), bind("ffn_up", c.NEmbd, n.NFF)}
	down := bind("ffn_down", n.NFF, c.NEmbd)
	return matrices(parts), func(pairs kernel.Act, route kernel.Buf) {
		if n.Scale == 0 {
			return
		}
		ffn, out := l.Floats("pair.ffn", kernel.PairRows, n.NFF), l.Floats("pair.out", kernel.PairRows, c.NEmbd)
		act := l.Act("pair.ffn", kernel.PairRows, n.NFF, down.Matrix)
		l.Add(kernel.Matmul{
			Dst: ffn, Act: l.Only(pairs, matrices(parts)...), Rows: kernel.PairRows, Route: route,
			Parts: parts, Epilogue: kernel.GLU,
		})
		l.Add(kernel.ToAct{Act: act, Src: ffn, Rows: kernel.PairRows, Cols: n.NFF, Route: route})
		l.Add(kernel.Matmul{
			Dst: out, Act: act, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{down},
			Scale: n.Scale,
		})
		l.Add(kernel.MoeCombine{Dst: l.X(), Src: out, Route: route})
	}
}
