package model

import (
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/arch"
)

// stepBytes is how many bytes of streamed weights a step has at most, where it can be cut: less need be in memory at a
// time then, more waits are made.
const stepBytes = 96 << 20

// A step is operations of a layer that run in one go, between which weights come and go.
type step struct {
	layer   int
	ops     []kernel.Op
	dense   []*matrix // streamed, that all tokens are multiplied by
	experts []*matrix // streamed, of which there are as many as the tokens were routed to by route
	route   kernel.Buf
	share   int // experts that have one of these
}

// steps cuts the layers of a program where the weights to come are known: after experts were chosen, and where
// weights are many.
func (w *weights) steps(p *arch.Program) []step {
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

// streamedOf returns the streamed matrices of an operation: those for all tokens, and those of experts.
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

// streamable returns the matrices that can be streamed: those that one operation of one layer has, as they lie in the
// file.
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
		plain := m != nil && len(m.parts) == 1 && !m.transposed && together(m.parts[0]) == 1
		if m != nil && n == 1 && !m.rows && (plain || m.panels != nil) {
			ok[key] = true
		}
	}
	return ok
}
