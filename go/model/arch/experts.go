package arch

import (
	"cmp"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// experts says what a mixture of experts is, beside the Config, which has how they are chosen and
// weighed. Biases, of the router, of the choice and of experts, are used where the file has them.
type experts struct {
	fn     kernel.Fn
	plain  bool   // there is no gate: down(fn(up(input)))
	early  bool   // weights multiply the input of the experts, not the result
	ahead  bool   // the router has read the layer's input, see routeAhead
	router bool   // its input is the residual, normalised by itself: with weights ffn_gate_inp.scale, over the root of its width
	post   string // the norm of the result, which is added to that of the feed-forward beside it, see both
	sum    string // the norm of the sum of experts and shared ones, see mixture
}

// both has the sum of a feed-forward and of the experts beside it.
func (l layer) both() kernel.Buf { return l.floats("both", kernel.TokRows, l.cfg.NEmbd) }

// addBoth adds the norm of that to the residual.
func (l layer) addBoth(norm string) { l.normTo(l.x(), l.both(), kernel.Add, norm) }

// addSum adds the norm of the sum of experts and a feed-forward to the residual, see experts.sum.
func (l layer) addSum(norm string) { l.normTo(l.x(), l.sublayerOut(), kernel.Add, norm) }

// mixture adds the experts and the shared ones of a layer that has some, else the dense
// feed-forward.
func (l layer) mixture(norm string, e experts) {
	switch {
	case !l.Sparse:
		l.residual(norm, l.feedForward(feedForward{fn: e.fn, plain: e.plain, post: e.sum, limited: l.cfg.LimitFn}))
		return
	case l.cfg.NFFShared == 0:
		l.residual(norm, l.experts(e))
	default:
		l.residual(norm, l.experts(e), l.feedForward(feedForward{fn: e.fn, plain: e.plain, shared: true, onto: e.sum != ""}))
	}
	if e.sum != "" {
		l.addSum(e.sum)
	}
}

// experts is a sparse feed-forward: the sum of the n_used best experts by the weights that
// the router gives them.
func (l layer) experts(e experts) sublayer {
	c := l.cfg
	var router kernel.Part
	if !e.ahead {
		router = l.router()
	}
	width := cmp.Or(c.NLatent, c.NEmbd)
	parts, epilogue := l.expertInputs(e, width), kernel.GLU
	if e.plain {
		epilogue = kernel.Apply
	}
	down := l.expertPart("ffn_down", c.NFFExpert, width)
	near, addNear := l.adjugates()
	in := append(matrices(parts), near...)

	takes := in
	var into, outOf kernel.Matrix // what experts are between
	if c.NLatent > 0 {
		into, outOf = l.matrix(l.between("down"), c.NEmbd, width), l.matrix(l.between("up"), width, c.NEmbd)
		takes = []kernel.Matrix{into}
	}
	if !e.router && !e.ahead {
		takes = append([]kernel.Matrix{router.Matrix}, takes...)
	}
	return sublayer{in: takes, run: func(act kernel.Act) {
		logits := l.routerLogits()
		route := l.buf("route", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
		pairAct := l.act("pair.embd", kernel.PairRows, width, in...)
		ffn := l.floats("pair.ffn", kernel.PairRows, c.NFFExpert)
		ffnAct := l.act("pair.ffn", kernel.PairRows, c.NFFExpert, down.Matrix)
		out := l.floats("pair.out", kernel.PairRows, width)

		switch {
		case e.ahead:
		case e.router:
			own := l.act("router", kernel.TokRows, c.NEmbd, router.Matrix)
			l.add(kernel.Norm{
				Act: own, Src: l.x(), Cols: c.NEmbd, Kind: c.Norm, Eps: c.Eps, Weight: l.vector("ffn_gate_inp.scale", c.NEmbd),
			})
			l.add(kernel.Matmul{Dst: logits, Act: own, Parts: []kernel.Part{router}, Scale: float32(1 / math.Sqrt(float64(c.NEmbd)))})
		default:
			l.add(kernel.Matmul{Dst: logits, Act: l.only(act, router.Matrix), Softcap: c.RouterCap, Parts: []kernel.Part{router}})
		}
		l.add(kernel.MoeRoute{
			Dst: route, Src: logits, Gating: c.ExpertGating, Bias: l.correction(),
			Groups: c.NGroup, GroupsUsed: c.NGroupUsed, BestOfGroup: c.GroupBest,
			Renorm: c.ExpertNorm, Scale: c.ExpertScale * c.ResidualScale, Choice: l.choice(),
		})
		if c.NLatent > 0 {
			act = l.latentInput(act, into, in...)
		}
		l.add(kernel.MoeGather{Dst: pairAct, Src: l.only(act, in...), Cols: width, Route: route, Weigh: e.early})
		l.add(l.capped(kernel.Matmul{
			Dst: ffn, Act: l.only(pairAct, matrices(parts)...), Rows: kernel.PairRows, Route: route, Parts: parts, Epilogue: epilogue, Fn: e.fn, Limit: l.ExpertLimit,
			LimitFn: c.LimitFn,
		}))
		l.add(kernel.ToAct{Act: ffnAct, Src: ffn, Rows: kernel.PairRows, Cols: c.NFFExpert, Route: route})
		l.add(kernel.Matmul{Dst: out, Act: ffnAct, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{down}})
		if c.NLatent > 0 {
			sum, sumAct := l.floats("latent", kernel.TokRows, width), l.act("latent", kernel.TokRows, width, outOf)
			l.add(kernel.MoeCombine{Dst: sum, Src: out, Route: route, Weighed: e.early, Store: true})
			if norm := "ffn_routed_norm.weight"; l.has(norm) {
				l.add(kernel.Norm{Act: sumAct, Src: sum, Cols: width, Kind: c.Norm, Eps: c.Eps, Weight: l.vector(norm, width)})
			} else {
				l.add(kernel.ToAct{Act: sumAct, Src: sum, Cols: width})
			}
			l.add(kernel.Matmul{Dst: l.x(), Act: sumAct, Epilogue: kernel.Add, Parts: []kernel.Part{{Matrix: outOf}}})
			return
		}
		if e.sum != "" {
			l.add(kernel.MoeCombine{Dst: l.sublayerOut(), Src: out, Route: route, Weighed: e.early, Store: true})
			return
		}
		if e.post == "" {
			l.add(kernel.MoeCombine{Dst: l.x(), Src: out, Route: route, Weighed: e.early, Store: l.takeEpilogue() == kernel.Store})
			addNear(pairAct, route)
			return
		}
		l.add(kernel.MoeCombine{Dst: l.sublayerOut(), Src: out, Route: route, Weighed: e.early, Store: true})
		l.normTo(l.both(), l.sublayerOut(), kernel.Add, e.post)
	}}
}

// router binds what gives a weight to each expert.
func (l layer) router() kernel.Part {
	return kernel.Part{
		Matrix: l.matrix("ffn_gate_inp.weight", l.cfg.NEmbd, l.cfg.NExpert),
		Bias:   l.optional("ffn_gate_inp.bias", l.cfg.NExpert),
	}
}

// routerLogits has what the router makes of each token.
func (l layer) routerLogits() kernel.Buf { return l.floats("router", kernel.TokRows, l.cfg.NExpert) }

// routeAhead has the router read the layer's input, for experts behind the attention.
func (l layer) routeAhead() {
	router := l.router()
	act := l.act("router", kernel.TokRows, l.cfg.NEmbd, router.Matrix)
	l.add(kernel.ToAct{Act: act, Src: l.x(), Cols: l.cfg.NEmbd})
	l.add(kernel.Matmul{Dst: l.routerLogits(), Act: act, Parts: []kernel.Part{router}})
}

// choice returns the experts of each token, where the token decides them.
func (l layer) choice() []int32 {
	if !l.Hashed {
		return nil
	}
	c := l.cfg
	return must(l.w.Choice(l.blk+"ffn_gate_tid2eid.weight", c.NExpertUsed, c.NVocab, c.NExpert))
}

// correction returns what is added to the weights of experts for the choice, where the file has it: some have it under
// the bare name.
func (l layer) correction() []float32 {
	name := "exp_probs_b"
	if l.has(name) {
		return l.vector(name, l.cfg.NExpert)
	}
	return l.optional(name+".bias", l.cfg.NExpert)
}

// between names the projection to what experts are between, or from it, which families call differently.
func (l layer) between(which string) string {
	if name := "ffn_routed_" + which + ".weight"; l.has(name) {
		return name
	}
	return "ffn_latent_" + which + ".weight"
}

// latentInput returns the input of experts that are between projections.
func (l layer) latentInput(act kernel.Act, into kernel.Matrix, takes ...kernel.Matrix) kernel.Act {
	src, made := l.floats("latent", kernel.TokRows, into.Out), l.act("latent", kernel.TokRows, into.Out, takes...)
	l.add(kernel.Matmul{Dst: src, Act: l.only(act, into), Parts: []kernel.Part{{Matrix: into}}})
	l.add(kernel.ToAct{Act: made, Src: src, Cols: into.Out})
	return made
}

// expertInputs returns the gates of all experts and what they open to, which some files
// have in one tensor; without gates, that alone.
func (l layer) expertInputs(e experts, width int) []kernel.Part {
	c := l.cfg
	if e.plain {
		return []kernel.Part{l.expertPart("ffn_up", width, c.NFFExpert)}
	}
	both := "ffn_gate_up_exps.weight"
	if !l.has(both) {
		return []kernel.Part{l.expertPart("ffn_gate", width, c.NFFExpert), l.expertPart("ffn_up", width, c.NFFExpert)}
	}
	return []kernel.Part{
		{Matrix: l.rows(both, width, 2*c.NFFExpert, 0, c.NFFExpert, c.NExpert)},
		{Matrix: l.rows(both, width, 2*c.NFFExpert, c.NFFExpert, c.NFFExpert, c.NExpert)},
	}
}

// expertPart returns a matrix of all experts, with their biases where the file has some.
func (l layer) expertPart(name string, in, out int) kernel.Part {
	p := kernel.Part{Matrix: l.expertMatrix(name, in, out)}
	if bias := name + "_exps.bias"; l.has(bias) {
		if out%kernel.Panel != 0 {
			check(fmt.Errorf("tensor %q: %d biases of each expert, want a multiple of %d", l.blk+bias, out, kernel.Panel))
		}
		p.Bias = l.vector(bias, out, l.cfg.NExpert)
	}
	return p
}

// expertMatrix returns the matrices of all experts: one tensor, or, in files
// from before there was such, one for each expert.
func (l layer) expertMatrix(name string, in, out int) kernel.Matrix {
	n := l.cfg.NExpert
	whole := name + "_exps.weight"
	if first := name + ".0.weight"; !l.has(whole) && l.has(first) {
		names := make([]string, n)
		for e := range names {
			names[e] = fmt.Sprintf("%s%s.%d.weight", l.blk, name, e)
		}
		return must(l.w.Stack(names, in, out))
	}
	return l.matrices(whole, in, out, n)
}
