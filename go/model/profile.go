package model

import (
	"strings"

	"github.com/quern-llm/quern/go/kernel"
)

// An OpProfile is where the time of one operation of the program went.
type OpProfile struct {
	kernel.OpProfile
	Layer   int    // from 0; -1 where it belongs to none
	Tensors string // that it reads, such as "attn_q attn_k attn_v"; may be empty
}

// Measure makes the passes that follow add to a profile that begins at nothing,
// or, if on is false, no longer do.
func (r *Runner) Measure(on bool) {
	threads := 0
	if on {
		threads = r.pool.Threads()
	}
	for _, p := range r.plans.all() {
		p.Measure(threads)
	}
}

// Profile returns what was measured of each operation since Measure, in the
// order in which they run.
func (r *Runner) Profile() []OpProfile {
	var all []OpProfile
	names := r.weights.names()
	add := func(layer int, p *kernel.Plan, ops []kernel.Op) {
		for i, o := range p.Profile() {
			all = append(all, OpProfile{o, layer, names.of(ops[i])})
		}
	}
	add(-1, r.plans.begin, r.program.Begin)
	for il, p := range r.plans.layers {
		add(il, p, r.program.Layers[il])
	}
	for i, p := range r.plans.outputs {
		add(-1, p, r.program.Outputs[i].Ops)
	}
	return all
}

// names are the tensors' names by where they lie: first bytes of matrices, first
// elements of vectors.
type names struct {
	matrices map[*byte]string
	vectors  map[*float32]string
}

func (w *weights) names() names {
	n := names{map[*byte]string{}, map[*float32]string{}}
	for _, m := range w.mats {
		if len(m.Data) > 0 {
			n.matrices[&m.Data[0]] = shortName(m.parts[0].Name)
		}
	}
	for name, v := range w.byVec {
		if len(v.v) > 0 {
			n.vectors[&v.v[0]] = shortName(name)
		}
	}
	return n
}

// of names the weights that an operation reads.
func (n names) of(op kernel.Op) string {
	var list []string
	switch op := op.(type) {
	case kernel.Embed:
		list = append(list, n.matrices[&op.Table.Data[0]])
	case kernel.Norm:
		if op.Weight != nil { // a norm may have none
			list = append(list, n.vectors[&op.Weight[0]])
		}
	case kernel.Matmul:
		for _, p := range op.Parts {
			list = append(list, n.matrices[&p.Data[0]])
		}
	}
	return strings.Join(list, " ")
}

// shortName is "ffn_up" for "blk.3.ffn_up.weight".
func shortName(tensor string) string {
	s := strings.TrimSuffix(tensor, ".weight")
	if rest, ok := strings.CutPrefix(s, "blk."); ok {
		_, s, _ = strings.Cut(rest, ".")
	}
	return s
}
