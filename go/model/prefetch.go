package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// A guess is operations that predict a layer's experts from the residual at the previous layer, while that
// layer still computes. Most predictions are right, because one layer adds little to the residual.
type guess struct {
	ops   []kernel.Op
	route kernel.Buf
}

// foresee adds guesses and their buffers to a program. Layers whose router does not read the residual, or
// whose weights are in memory, have none.
func (w *weights) foresee(p *nn.Program) {
	w.guess = map[int]guess{}
	twins := map[kernel.Buf]kernel.Buf{}
	twin := func(b kernel.Buf) kernel.Buf {
		t, ok := twins[b]
		if !ok {
			t = kernel.Buf(len(p.Bufs))
			p.Bufs = append(p.Bufs, p.Bufs[b])
			twins[b] = t
		}
		return t
	}
	for il, ops := range p.Layers {
		if il == 0 || !w.streamsExperts(ops) {
			continue // of the first there is nothing before
		}
		if norm, router, route, ok := routing(ops); ok {
			act := kernel.Act{}
			for _, kind := range slices.Sorted(maps.Keys(router.Act)) {
				act[kind] = twin(router.Act[kind])
			}
			router.Dst, router.Act = twin(router.Dst), act
			route.Src, route.Dst = router.Dst, twin(route.Dst)
			switch op := norm.(type) {
			case kernel.Norm:
				op.Act = act
				norm = op
			case kernel.ToAct:
				op.Act = act
				norm = op
			}
			w.guess[il] = guess{[]kernel.Op{norm, router, route}, route.Dst}
		}
	}
}

// streamsExperts reports whether experts of a layer are streamed.
func (w *weights) streamsExperts(ops []kernel.Op) bool {
	return slices.ContainsFunc(ops, func(op kernel.Op) bool {
		mm, ok := op.(kernel.Matmul)
		if !ok {
			return false
		}
		_, experts := w.streamedOf(mm)
		return len(experts) > 0
	})
}

// routing finds the operations that select a layer's experts: the norm of the router's input, the router, and
// the selection.
func routing(ops []kernel.Op) (norm kernel.Op, router kernel.Matmul, route kernel.MoeRoute, ok bool) {
	last := -1 // what is looked for lies before it
	find := func(is func(kernel.Op) bool) bool {
		for last--; last >= 0 && !is(ops[last]); last-- {
		}
		return last >= 0
	}
	last = slices.IndexFunc(ops, func(op kernel.Op) bool { route, ok = op.(kernel.MoeRoute); return ok })
	if last < 0 {
		return nil, router, route, false
	}
	if !find(func(op kernel.Op) bool { router, ok = op.(kernel.Matmul); return ok && router.Dst == route.Src }) || len(router.Parts) != 1 {
		return nil, router, route, false
	}
	makes := func(act kernel.Act) bool {
		for kind, b := range router.Act {
			if made, ok := act[kind]; !ok || made != b {
				return false
			}
		}
		return true
	}
	found := find(func(op kernel.Op) bool {
		switch op := op.(type) {
		case kernel.Norm:
			ok = op.Rows == kernel.TokRows && makes(op.Act)
		case kernel.ToAct:
			ok = op.Rows == kernel.TokRows && makes(op.Act)
		default:
			ok = false
		}
		return ok
	})
	if found {
		norm = ops[last]
	}
	return norm, router, route, found
}

// isRouter reports whether a product computes the scores of experts.
func isRouter(ops []kernel.Op, mm kernel.Matmul) bool {
	return slices.ContainsFunc(ops, func(op kernel.Op) bool {
		route, ok := op.(kernel.MoeRoute)
		return ok && route.Src == mm.Dst
	})
}

// A prefetch is the guess made before a step: the experts of the next step that has any. Without a plan there
// is none.
type prefetch struct {
	plan  *kernel.Plan
	route kernel.Buf
	of    *step // whose experts they are
	least int   // tokens of a pass for which it is made
}

// prefetches returns the guess of each step.
func (w *weights) prefetches(p *nn.Program, steps []step) ([]prefetch, error) {
	all := make([]prefetch, len(steps))
	next := -1 // step with experts
	for i := len(steps) - 1; i >= 0; i-- {
		if len(steps[i].experts) == 0 {
			continue
		}
		if next >= 0 && steps[next].layer != steps[i].layer {
			if g, ok := w.guess[steps[next].layer]; ok {
				plan, err := kernel.NewPlan(p.Bufs, g.ops...)
				if err != nil {
					for _, a := range all {
						if a.plan != nil {
							a.plan.Close()
						}
					}
					return nil, fmt.Errorf("guess of layer %d: %w", steps[next].layer, err)
				}
				all[i] = prefetch{plan, g.route, &steps[next], enough(p.Bufs[g.route])}
			}
		}
		next = i
	}
	return all, nil
}

// enough returns the number of tokens from which guesses are made: enough to use each expert about once.
// Nearly all predictions are then right, and reading a layer overlaps with computing the one before. For a
// single token a fifth are wrong, and the time saved waiting is lost by reading more.
func enough(route kernel.BufSpec) int { return (route.NExpert + route.NUsed - 1) / route.NUsed }
