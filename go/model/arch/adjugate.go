package arch

import "github.com/quern-llm/quern/go/kernel"

// An Adjugate is the sizes of small experts that neighbours among the others share. The zero value: there are none.
type Adjugate struct {
	Of    int     // experts that share one
	NFF   int     // feed-forward width
	Scale float32 // of what it makes
}

// adjugates binds them. They add to x, given the input of pairs.
func (l layer) adjugates() (in []kernel.Matrix, add func(pairs kernel.Act, route kernel.Buf)) {
	c, n := l.cfg, l.cfg.Adjugate
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
		ffn, out := l.floats("pair.ffn", kernel.PairRows, n.NFF), l.floats("pair.out", kernel.PairRows, c.NEmbd)
		act := l.act("pair.ffn", kernel.PairRows, n.NFF, down.Matrix)
		l.add(kernel.Matmul{Dst: ffn, Act: l.only(pairs, matrices(parts)...), Rows: kernel.PairRows, Route: route, Parts: parts, Epilogue: kernel.GLU})
		l.add(kernel.ToAct{Act: act, Src: ffn, Rows: kernel.PairRows, Cols: n.NFF, Route: route})
		l.add(kernel.Matmul{Dst: out, Act: act, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{down}, Scale: n.Scale})
		l.add(kernel.MoeCombine{Dst: l.x(), Src: out, Route: route})
	}
}
