package model

import (
	"slices"
	"unsafe"

	"github.com/quern-llm/quern/go/kernel"
)

// Measure starts a new profile of what the trainer computes from now on or, if on is false, stops profiling.
func (t *Trainer) Measure(on bool) {
	threads := 0
	if on {
		threads = t.pool.Threads()
	}
	plans := slices.Concat(t.plans.begin, t.plans.layers)
	plans = append(plans, t.move...)
	for _, l := range t.layers {
		plans = slices.Concat(plans, l.whole, l.again, l.back)
	}
	for _, p := range []backPlans{t.output, t.embedding} {
		plans = slices.Concat(plans, p.again, p.back)
	}
	for _, p := range plans {
		p.Measure(threads)
	}
}

// Profile returns the measurements of each operation since Measure: of the forward pass, of the logits and what follows from
// them, and of each layer, the last one first.
func (t *Trainer) Profile() []OpProfile {
	var all []OpProfile
	names := t.m.weights.names()
	for name, l := range t.Adapter.low {
		names.vectors[unsafe.SliceData(l.a)] = shortName(name)
	}
	add := func(layer int, again bool, plans parts, ops []kernel.Op) {
		for _, p := range plans {
			profile := p.Profile()
			for i, o := range profile {
				all = append(all, OpProfile{o, layer, names.of(ops[i]), again})
			}
			ops = ops[len(profile):]
		}
	}
	add(-1, false, t.plans.begin, t.begin)
	for i, p := range t.plans.layers {
		add(t.plans.steps[i].layer, false, parts{p}, t.plans.steps[i].ops)
	}
	add(-1, false, t.move, []kernel.Op{t.program.move()})
	for il, l := range t.layers {
		add(il, false, l.whole, t.program.layers[il].whole)
	}
	add(-1, false, t.output.again, t.program.output.again)
	add(-1, false, t.output.back, t.program.output.back)
	for il, p := range slices.Backward(t.layers) {
		add(il, true, p.again, t.program.layers[il].again)
		add(il, false, p.back, t.program.layers[il].back)
	}
	add(-1, true, t.embedding.again, t.program.embedding.again)
	add(-1, false, t.embedding.back, t.program.embedding.back)
	return all
}
