package model

import (
	"strings"
	"unsafe"

	"github.com/quern-llm/quern/go/kernel"
)

// An OpProfile is the measured times of one operation of the program.
type OpProfile struct {
	kernel.OpProfile
	Layer   int    // from 0; -1 where it belongs to none
	Tensors string // that it reads, such as "attn_q attn_k attn_v"; may be empty
	Again   bool   // computed again, for the backward pass
}

// Measure starts a new profile of the passes that follow or, if on is false, stops profiling.
func (r *Runner) Measure(on bool) {
	threads := 0
	if on {
		threads = r.pool.Threads()
	}
	for _, p := range r.plans.all() {
		p.Measure(threads)
	}
}

// Profile returns the measurements of each operation since Measure, in execution order.
func (r *Runner) Profile() []OpProfile {
	var all []OpProfile
	names := r.weights.names()
	add := func(layer int, p *kernel.Plan, ops []kernel.Op) {
		for i, o := range p.Profile() {
			all = append(all, OpProfile{o, layer, names.of(ops[i]), false})
		}
	}
	for i, p := range r.plans.begin {
		add(-1, p, r.program.Begin[i*mostOps:])
	}
	for il, p := range r.plans.encoder {
		add(il, p, r.program.Encoder[il])
	}
	for i, p := range r.plans.layers {
		add(r.plans.steps[i].layer, p, r.plans.steps[i].ops)
	}
	for i, p := range r.plans.outputs {
		add(-1, p, r.program.Outputs[i].Ops)
	}
	if next := r.program.Next; next != nil {
		plans, layer := &r.plans.next, len(r.program.Layers)
		add(layer, plans.take, next.Take)
		if plans.keep != nil {
			add(layer, plans.keep, next.Keep)
		}
		for i, s := range next.Steps {
			add(layer+i, plans.steps[i], s.Step)
			add(layer+i, plans.heads[i], s.Head)
		}
	}
	return all
}

// names maps addresses to tensors' names: the first bytes of matrices, the first elements of vectors.
type names struct {
	matrices map[*byte]string
	vectors  map[*float32]string
}

func (w *weights) names() names {
	n := names{map[*byte]string{}, map[*float32]string{}}
	for _, m := range w.mats {
		n.matrices[unsafe.SliceData(m.Data)] = shortName(m.parts[0].Name)
	}
	for name, v := range w.byVec {
		n.vectors[unsafe.SliceData(v.v)] = shortName(name)
	}
	delete(n.vectors, nil) // of operations without weights
	return n
}

// of names the weights that an operation reads.
func (n names) of(op kernel.Op) string {
	switch op := op.(type) {
	case kernel.Embed:
		return n.matrices[unsafe.SliceData(op.Table.Data)]
	case kernel.Norm:
		return n.vectors[unsafe.SliceData(op.Weight)]
	case kernel.NormRows:
		return n.vectors[unsafe.SliceData(op.Weight)]
	case kernel.Conv:
		return n.vectors[unsafe.SliceData(op.Weight)]
	case kernel.Delta:
		return n.vectors[unsafe.SliceData(op.Rate)]
	case kernel.WKV:
		return n.vectors[unsafe.SliceData(op.Bonus)]
	case kernel.Scan:
		return n.vectors[unsafe.SliceData(op.Skip)]
	case kernel.Matmul:
		var list []string
		for _, p := range op.Parts {
			list = append(list, n.matrices[unsafe.SliceData(p.Data)])
		}
		return strings.Join(list, " ")
	case kernel.BackX:
		return n.matrices[unsafe.SliceData(op.Matrix.Data)]
	case kernel.BackLow:
		return n.vectors[unsafe.SliceData(op.A)]
	case kernel.BackNorm:
		return n.vectors[unsafe.SliceData(op.Weight)]
	}
	return ""
}

// shortName is "ffn_up" for "blk.3.ffn_up.weight".
func shortName(tensor string) string {
	s := strings.TrimSuffix(tensor, ".weight")
	if rest, ok := strings.CutPrefix(s, "blk."); ok {
		_, s, _ = strings.Cut(rest, ".")
	}
	return s
}
