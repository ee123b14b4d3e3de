package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// experts says what a mixture of experts is.
type experts struct {
	renorm bool // the weights of the chosen sum to 1
}

// experts is a sparse feed-forward: the sum of the n_used best experts by the
// softmax of the router, which weighs them.
func (l layer) experts(e experts) half {
	c := l.cfg
	router := l.matrix(l.blk+"ffn_gate_inp.weight", c.NEmbd, c.NExpert)
	gate := l.expertMatrix("ffn_gate", c.NEmbd, c.NFFExpert)
	up := l.expertMatrix("ffn_up", c.NEmbd, c.NFFExpert)
	down := l.expertMatrix("ffn_down", c.NFFExpert, c.NEmbd)

	return half{in: []kernel.Matrix{router, gate, up}, run: func(act kernel.Act) {
		logits := l.floats("router", kernel.TokRows, c.NExpert)
		route := l.buf("route", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
		pairAct := l.act("pair.embd", kernel.PairRows, c.NEmbd, gate, up)
		ffn := l.floats("pair.ffn", kernel.PairRows, c.NFFExpert)
		ffnAct := l.act("pair.ffn", kernel.PairRows, c.NFFExpert, down)
		out := l.floats("pair.out", kernel.PairRows, c.NEmbd)

		l.add(kernel.Matmul{Dst: logits, Act: l.only(act, router), Parts: []kernel.Part{{Matrix: router}}})
		l.add(kernel.MoeRoute{Dst: route, Src: logits, Renorm: e.renorm, Scale: 1})
		l.add(kernel.MoeGather{Dst: pairAct, Src: l.only(act, gate, up), Cols: c.NEmbd, Route: route})
		l.add(kernel.Matmul{
			Dst: ffn, Act: pairAct, Rows: kernel.PairRows, Route: route,
			Parts: []kernel.Part{{Matrix: gate}, {Matrix: up}}, Epilogue: kernel.GLU,
		})
		l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Rows: kernel.PairRows, Cols: c.NFFExpert, Route: route})
		l.add(kernel.Matmul{Dst: out, Act: ffnAct, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{{Matrix: down}}})
		l.add(kernel.MoeCombine{Dst: l.x(), Src: out, Route: route})
	}}
}

// expertMatrix returns the matrices of all experts: one tensor, or, in files
// from before there was such, one for each expert.
func (l layer) expertMatrix(name string, in, out int) kernel.Matrix {
	n := l.cfg.NExpert
	whole := l.blk + name + "_exps.weight"
	if first := fmt.Sprintf("%s%s.0.weight", l.blk, name); !l.w.Has(whole) && l.w.Has(first) {
		names := make([]string, n)
		for e := range names {
			names[e] = fmt.Sprintf("%s%s.%d.weight", l.blk, name, e)
		}
		m, err := l.w.Stack(names, in, out)
		return keep(l.builder, m, err)
	}
	m, err := l.w.Matrix(whole, in, out, n)
	return keep(l.builder, m, err)
}
