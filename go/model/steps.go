package model

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// stepBytes is the maximum of streamed weights per step, where a layer can be cut: smaller steps need less
// memory at a time, but wait more often.
const stepBytes = 96 << 20

// A step is operations of a layer that run without waiting for weights.
type step struct {
	layer   int
	ops     []kernel.Op
	dense   []*matrix // streamed, that all tokens are multiplied by
	experts []*matrix // streamed, of which there are as many as the tokens were routed to by route
	route   kernel.Buf
	share   int // experts that have one of these
}

// steps cuts the layers of a program: after experts are selected, since the weights that follow are then
// known, and where there are many weights.
func (w *weights) steps(p *nn.Program) []step {
	var all []step
	for il, ops := range p.Layers {
		cur, bytes := step{layer: il}, 0
		cut := func() {
			if len(cur.ops) > 0 {
				all = append(all, cur)
			}
			cur, bytes = step{layer: il}, 0
		}
		for _, op := range ops {
			switch op := op.(type) {
			case kernel.Matmul:
				dense, experts := w.streamedOf(op)
				n := 0
				for _, m := range dense {
					n += m.Bytes()
				}
				share := 0
				if len(experts) > 0 {
					share = p.Bufs[op.Route].NExpert / experts[0].N
				}
				if n > 0 && bytes > 0 && bytes+n > stepBytes || cur.share > 0 && share > 0 && cur.share != share {
					cut()
				}
				bytes += n
				cur.dense, cur.experts = append(cur.dense, dense...), append(cur.experts, experts...)
				if share > 0 {
					cur.route, cur.share = op.Route, share
				}
				cur.ops = append(cur.ops, op)
			case kernel.MoeRoute:
				cur.ops = append(cur.ops, op)
				if len(w.stream) > 0 {
					cut()
				}
			default:
				cur.ops = append(cur.ops, op)
			}
		}
		cut()
	}
	return all
}

// streamedOf returns the streamed matrices of an operation: those used by all tokens, and those of experts.
func (w *weights) streamedOf(op kernel.Matmul) (dense, experts []*matrix) {
	for _, p := range op.Parts {
		m := w.byName[p.Name]
		switch {
		case m == nil || !m.streamed:
		case op.Rows == kernel.PairRows:
			experts = append(experts, m)
		default:
			dense = append(dense, m)
		}
	}
	return dense, experts
}

// streamable returns the matrices that can be streamed: those used by one operation of one layer, in the
// file's order.
func streamable(f *find) map[string]bool {
	uses := map[string]int{}
	count := func(lists [][]kernel.Op, n int) {
		for _, ops := range lists {
			for _, op := range ops {
				if mm, ok := op.(kernel.Matmul); ok {
					for _, p := range mm.Parts {
						uses[p.Name] += n
						if isRouter(ops, mm) {
							uses[p.Name]++ // it is small, and guesses what is read ahead
						}
					}
				}
			}
		}
	}
	count(f.program.Layers, 1)
	count(append([][]kernel.Op{f.program.Begin}, f.program.Encoder...), 2)
	for _, o := range f.program.Outputs {
		count([][]kernel.Op{o.Ops}, 2)
	}
	ok := map[string]bool{}
	for key, n := range uses {
		m := f.weights.byName[key]
		plain := m != nil && len(m.parts) == 1 && m.remade == nil && together(m.parts[0]) == 1
		if m != nil && n == 1 && !m.rows && (plain || m.panels != nil) {
			ok[key] = true
		}
	}
	return ok
}
