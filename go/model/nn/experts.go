package nn

import (
	"cmp"
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// Experts says what a mixture of experts has besides the Config, which says how experts are selected and weighted.
// Biases of the router, of the selection and of experts are used if the file has them.
type Experts struct {
	Fn          kernel.Fn
	Ungated     bool // no gate: down(fn(up(input)))
	WeighInput  bool // weights multiply the input of the experts, not the result
	RoutedAhead bool // the router has read the input of the layer: see RouteAhead
	// the router reads the residual after a norm of its own, with weights ffn_gate_inp.scale, over the root of NEmbd
	RouterNorm bool
	PostNorm   string // the norm of the result, which is added to that of the feed-forward beside it: see AddBoth
	SumNorm    string // the norm of the sum of routed and shared experts: see AddSum
	SharedGate bool   // shared experts are behind a gate: see FeedForward
}

// both is the buffer with the sum of a feed-forward and of the experts beside it.
func (l Layer) both() kernel.Buf { return l.Floats("both", kernel.TokRows, l.Config.NEmbd) }

// AddBoth adds to the residual the norm of the sum of a feed-forward that is Beside experts and of these.
func (l Layer) AddBoth(norm string) { l.normTo(l.X(), l.both(), kernel.Add, norm) }

// AddSum adds to the residual the norm of the sum of experts with a SumNorm and of a feed-forward Onto them.
func (l Layer) AddSum(norm string) { l.normTo(l.X(), l.sublayerOut(), kernel.Add, norm) }

// Mixture adds x += the sum of routed and shared experts of norm(x), or, in layers without experts, a dense
// feed-forward.
func (l Layer) Mixture(norm string, e Experts) {
	switch {
	case !l.Sparse:
		l.Residual(norm, l.FeedForward(FeedForward{Fn: e.Fn, Ungated: e.Ungated, PostNorm: e.SumNorm,
			limited: l.Config.LimitFn}))
		return
	case l.Config.NFFShared == 0:
		l.Residual(norm, l.Experts(e))
	default:
		l.Residual(norm, l.Experts(e), l.FeedForward(FeedForward{Fn: e.Fn, Ungated: e.Ungated, Shared: true,
			SharedGate: e.SharedGate, Onto: e.SumNorm != ""}))
	}
	if e.SumNorm != "" {
		l.AddSum(e.SumNorm)
	}
}

// Experts is a sparse feed-forward: the sum of the NExpertUsed experts with the best scores, weighted by the router
// (Shazeer et al. 2017).
func (l Layer) Experts(e Experts) Sublayer {
	c := l.Config
	e.Fn = c.fn(e.Fn, false)
	var router kernel.Part
	if !e.RoutedAhead {
		router = l.router()
	}
	width := cmp.Or(c.NLatent, c.NEmbd)
	parts, epilogue := l.expertInputs(e, width), kernel.GLU
	if e.Ungated {
		epilogue = kernel.Apply
	}
	down := l.expertPart("ffn_down", c.NFFExpert, width)
	near, addNear := l.adjugates()
	in := append(matrices(parts), near...)

	takes := in
	var into, outOf kernel.Matrix // what experts are between
	if c.NLatent > 0 {
		into, outOf = l.Matrix(l.between("down"), c.NEmbd, width), l.Matrix(l.between("up"), width, c.NEmbd)
		takes = []kernel.Matrix{into}
	}
	if !e.RouterNorm && !e.RoutedAhead {
		takes = append([]kernel.Matrix{router.Matrix}, takes...)
	}
	return Sublayer{In: takes, Run: func(act kernel.Act) {
		logits := l.routerLogits()
		route := l.buf("route", kernel.BufSpec{Kind: kernel.Route, Width: kernel.Panel})
		pairAct := l.Act("pair.embd", kernel.PairRows, width, in...)
		ffn := l.Floats("pair.ffn", kernel.PairRows, c.NFFExpert)
		ffnAct := l.Act("pair.ffn", kernel.PairRows, c.NFFExpert, down.Matrix)
		out := l.Floats("pair.out", kernel.PairRows, width)

		switch {
		case e.RoutedAhead:
		case e.RouterNorm:
			own := l.Act("router", kernel.TokRows, c.NEmbd, router.Matrix)
			l.Add(kernel.Norm{
				Act: own, Src: l.X(), Cols: c.NEmbd, Kind: c.Norm, Eps: c.Eps,
				Weight: l.Vector("ffn_gate_inp.scale", c.NEmbd),
			})
			l.Add(kernel.Matmul{
				Dst: logits, Act: own, Parts: []kernel.Part{router},
				Scale: float32(1 / math.Sqrt(float64(c.NEmbd))),
			})
		default:
			l.Add(kernel.Matmul{
				Dst: logits, Act: l.Only(act, router.Matrix), Softcap: c.RouterCap,
				Parts: []kernel.Part{router},
			})
		}
		l.Add(kernel.MoeRoute{
			Dst: route, Src: logits, Gating: c.ExpertGating, Bias: l.correction(),
			Groups: c.NGroup, GroupsUsed: c.NGroupUsed, BestOfGroup: c.GroupBest,
			Renorm: c.ExpertNorm, Scale: c.ExpertScale * c.ResidualScale, Choice: l.choice(), Same: c.NSame,
		})
		if c.NLatent > 0 {
			act = l.latentInput(act, into, in...)
		}
		l.Add(kernel.MoeGather{
			Dst: pairAct, Src: l.Only(act, in...), Cols: width, Route: route, Weigh: e.WeighInput,
		})
		l.Add(l.capped(kernel.Matmul{
			Dst: ffn, Act: l.Only(pairAct, matrices(parts)...), Rows: kernel.PairRows, Route: route, Parts: parts,
			Epilogue: epilogue, Fn: e.Fn, Limit: l.ExpertLimit,
			LimitFn: c.LimitFn,
		}))
		l.Add(kernel.ToAct{Act: ffnAct, Src: ffn, Rows: kernel.PairRows, Cols: c.NFFExpert, Route: route})
		l.Add(kernel.Matmul{
			Dst: out, Act: ffnAct, Rows: kernel.PairRows, Route: route, Parts: []kernel.Part{down},
		})
		if c.NLatent > 0 {
			sum, sumAct := l.Floats("latent", kernel.TokRows, width), l.Act("latent", kernel.TokRows, width, outOf)
			l.Add(kernel.MoeCombine{Dst: sum, Src: out, Route: route, Weighed: e.WeighInput, Store: true})
			if norm := "ffn_routed_norm.weight"; l.Has(norm) {
				l.Add(kernel.Norm{
					Act: sumAct, Src: sum, Cols: width, Kind: c.Norm, Eps: c.Eps,
					Weight: l.Vector(norm, width),
				})
			} else {
				l.Add(kernel.ToAct{Act: sumAct, Src: sum, Cols: width})
			}
			l.Add(kernel.Matmul{
				Dst: l.X(), Act: sumAct, Epilogue: kernel.Add, Parts: []kernel.Part{{Matrix: outOf}},
			})
			return
		}
		if e.SumNorm != "" {
			l.Add(kernel.MoeCombine{
				Dst: l.sublayerOut(), Src: out, Route: route, Weighed: e.WeighInput, Store: true,
			})
			return
		}
		if e.PostNorm == "" {
			sum := kernel.MoeCombine{
				Dst: l.X(), Src: out, Route: route, Weighed: e.WeighInput,
				Store: l.takeEpilogue() == kernel.Store,
			}
			if sum.ReturnsSame = c.NSame > 0; sum.ReturnsSame {
				sum.Same = l.same()
			}
			l.Add(sum)
			addNear(pairAct, route)
			return
		}
		l.Add(kernel.MoeCombine{
			Dst: l.sublayerOut(), Src: out, Route: route, Weighed: e.WeighInput, Store: true,
		})
		l.normTo(l.both(), l.sublayerOut(), kernel.Add, e.PostNorm)
	}}
}

// router returns the matrix that scores each expert.
func (l Layer) router() kernel.Part {
	return kernel.Part{
		Matrix: l.Matrix("ffn_gate_inp.weight", l.Config.NEmbd, l.Config.NExpert+l.Config.NSame),
		Bias:   l.optional("ffn_gate_inp.bias", l.Config.NExpert+l.Config.NSame),
	}
}

// routerLogits is the buffer of the scores.
func (l Layer) routerLogits() kernel.Buf {
	return l.Floats("router", kernel.TokRows, l.Config.NExpert+l.Config.NSame)
}

// RouteAhead has the router read the input of the layer, for experts after its attention.
func (l Layer) RouteAhead() {
	router := l.router()
	act := l.Act("router", kernel.TokRows, l.Config.NEmbd, router.Matrix)
	l.Add(kernel.ToAct{Act: act, Src: l.X(), Cols: l.Config.NEmbd})
	l.Add(kernel.Matmul{Dst: l.routerLogits(), Act: act, Parts: []kernel.Part{router}})
}

// choice returns the experts of each token of the vocabulary, in layers where the token decides them.
func (l Layer) choice() []int32 {
	if !l.Hashed {
		return nil
	}
	c := l.Config
	return must(l.weights.Choice(l.prefix+"ffn_gate_tid2eid.weight", c.NExpertUsed, c.NVocab, c.NExpert))
}

// correction returns the bias of the selection (DeepSeek-AI 2024, "DeepSeek-V3"), if the file has one; some have it
// under the bare name.
func (l Layer) correction() []float32 {
	name, n := "exp_probs_b", l.Config.NExpert+l.Config.NSame
	for _, name := range []string{name, name + ".weight"} {
		if l.Has(name) {
			return l.Vector(name, n)
		}
	}
	return l.optional(name+".bias", n)
}

// between names the projection to the width of experts, or back from it, which families call differently.
func (l Layer) between(which string) string {
	if name := "ffn_routed_" + which + ".weight"; l.Has(name) {
		return name
	}
	return "ffn_latent_" + which + ".weight"
}

// latentInput returns the input of experts that have a width of their own.
func (l Layer) latentInput(act kernel.Act, into kernel.Matrix, takes ...kernel.Matrix) kernel.Act {
	src, made := l.Floats("latent", kernel.TokRows, into.Out), l.Act("latent", kernel.TokRows, into.Out, takes...)
	l.Add(kernel.Matmul{Dst: src, Act: l.Only(act, into), Parts: []kernel.Part{{Matrix: into}}})
	l.Add(kernel.ToAct{Act: made, Src: src, Cols: into.Out})
	return made
}

// expertInputs returns the gate and up matrices of all experts, which some files have in one tensor; without gates, the
// up matrices.
func (l Layer) expertInputs(e Experts, width int) []kernel.Part {
	c := l.Config
	if e.Ungated {
		return []kernel.Part{l.expertPart("ffn_up", width, c.NFFExpert)}
	}
	both := "ffn_gate_up_exps.weight"
	if !l.Has(both) {
		return []kernel.Part{
			l.expertPart("ffn_gate", width, c.NFFExpert), l.expertPart("ffn_up", width, c.NFFExpert),
		}
	}
	return []kernel.Part{
		{Matrix: l.rows(both, width, 2*c.NFFExpert, 0, c.NFFExpert, c.NExpert)},
		{Matrix: l.rows(both, width, 2*c.NFFExpert, c.NFFExpert, c.NFFExpert, c.NExpert)},
	}
}

// expertPart returns a matrix of each expert, with their biases if the file has them.
func (l Layer) expertPart(name string, in, out int) kernel.Part {
	p := kernel.Part{Matrix: l.expertMatrix(name, in, out)}
	if bias := name + "_exps.bias"; l.Has(bias) {
		if out%kernel.Panel != 0 {
			check(fmt.Errorf("tensor %q: %d biases of each expert, want a multiple of %d", l.prefix+bias, out,
				kernel.Panel))
		}
		p.Bias = l.Vector(bias, out, l.Config.NExpert)
	}
	return p
}

// expertMatrix returns a matrix of each expert: in one tensor, or, in old files, in a tensor each.
func (l Layer) expertMatrix(name string, in, out int) kernel.Matrix {
	n := l.Config.NExpert
	whole := name + "_exps.weight"
	if first := name + ".0.weight"; !l.Has(whole) && l.Has(first) {
		names := make([]string, n)
		for e := range names {
			names[e] = fmt.Sprintf("%s%s.%d.weight", l.prefix, name, e)
		}
		return must(l.weights.Stack(names, in, out))
	}
	return l.matrices(whole, in, out, n)
}
