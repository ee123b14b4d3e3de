package arch

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// experts says what a mixture of experts is, beside the Config, which has how they are chosen and
// weighed. Biases, of the router, of the choice and of experts, are used where the file has them.
type experts struct {
	fn    kernel.Fn
	plain bool // there is no gate: down(fn(up(input)))
	early bool // weights multiply the input of the experts, not the result
}

// mixture adds the experts and the shared ones of a layer that has some, else the dense
// feed-forward.
func (l layer) mixture(norm string, e experts) {
	switch {
	case !l.Sparse:
		l.residual(norm, l.feedForward(feedForward{}))
	case l.cfg.NFFShared == 0:
		l.residual(norm, l.experts(e))
	default:
		l.residual(norm, l.experts(e), l.feedForward(feedForward{fn: e.fn, shared: true}))
	}
}

// experts is a sparse feed-forward: the sum of the n_used best experts by the weights that
// the router gives them.
func (l layer) experts(e experts) half {
	c := l.cfg
	router := kernel.Part{
		Matrix: l.matrix(l.blk+"ffn_gate_inp.weight", c.NEmbd, c.NExpert),
		Bias:   l.optional(l.blk+"ffn_gate_inp.bias", c.NExpert),
	}
	parts, epilogue := l.expertInputs(e.plain), kernel.GLU
	if e.plain {
		epilogue = kernel.Apply
	}
	down := l.expertPart("ffn_down", c.NFFExpert, c.NEmbd)
	var in []kernel.Matrix
	for _, p := range parts {
		in = append(in, p.Matrix)
	}

	return half{in: append([]kernel.Matrix{router.Matrix}, in...), run: func(act kernel.Act) {
		logits := l.floats("router", kernel.TokRows, c.NExpert)
		route := l.buf("route", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
		pairAct := l.act("pair.embd", kernel.PairRows, c.NEmbd, in...)
		ffn := l.floats("pair.ffn", kernel.PairRows, c.NFFExpert)
		ffnAct := l.act("pair.ffn", kernel.PairRows, c.NFFExpert, down.Matrix)
		out := l.floats("pair.out", kernel.PairRows, c.NEmbd)

		l.add(kernel.Matmul{Dst: logits, Act: l.only(act, router.Matrix), Parts: []kernel.Part{router}})
		l.add(kernel.MoeRoute{
			Dst: route, Src: logits, Gating: c.ExpertGating, Bias: l.optional(l.blk+"exp_probs_b.bias", c.NExpert),
			Groups: c.NGroup, GroupsUsed: c.NGroupUsed, Renorm: c.ExpertNorm, Scale: c.ExpertScale * c.ResidualScale,
		})
		l.add(kernel.MoeGather{Dst: pairAct, Src: l.only(act, in...), Cols: c.NEmbd, Route: route, Weigh: e.early})
		l.add(kernel.Matmul{
			Dst: ffn, Act: pairAct, Rows: kernel.PairRows, Route: route, Parts: parts, Epilogue: epilogue, Fn: e.fn,
		})
		l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Rows: kernel.PairRows, Cols: c.NFFExpert, Route: route})
		l.add(kernel.Matmul{Dst: out, Act: ffnAct, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{down}})
		l.add(kernel.MoeCombine{Dst: l.x(), Src: out, Route: route, Weighed: e.early})
	}}
}

// expertInputs returns the gates of all experts, unless there are none, and what they open to,
// which some files have in one tensor.
func (l layer) expertInputs(plain bool) []kernel.Part {
	c := l.cfg
	if plain {
		return []kernel.Part{l.expertPart("ffn_up", c.NEmbd, c.NFFExpert)}
	}
	both := l.blk + "ffn_gate_up_exps.weight"
	if !l.w.Has(both) {
		return []kernel.Part{l.expertPart("ffn_gate", c.NEmbd, c.NFFExpert), l.expertPart("ffn_up", c.NEmbd, c.NFFExpert)}
	}
	return []kernel.Part{
		{Matrix: l.rows(both, c.NEmbd, 2*c.NFFExpert, 0, c.NFFExpert, c.NExpert)},
		{Matrix: l.rows(both, c.NEmbd, 2*c.NFFExpert, c.NFFExpert, c.NFFExpert, c.NExpert)},
	}
}

// expertPart returns a matrix of all experts, with their biases where the file has some.
func (l layer) expertPart(name string, in, out int) kernel.Part {
	p := kernel.Part{Matrix: l.expertMatrix(name, in, out)}
	if bias := l.blk + name + "_exps.bias"; l.w.Has(bias) {
		if out%kernel.Panel != 0 {
			keep(l.builder, 0, fmt.Errorf("tensor %q: %d biases of each expert, want a multiple of %d", bias, out, kernel.Panel))
		}
		p.Bias = l.vector(bias, out, l.cfg.NExpert)
	}
	return p
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
