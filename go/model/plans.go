package model

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// plans is a program laid out for C.
type plans struct {
	begin      parts
	encoder    []*kernel.Plan
	layers     []*kernel.Plan // of the steps
	outputs    []*kernel.Plan
	steps      []step        // what the layers are cut into: one each, or several where weights are streamed
	prefetches []prefetch    // of each step
	encode     *kernel.Chain // of begin and the encoder
	forward    *kernel.Chain // of begin and the layers
	next       nextPlans
}

func newPlans(p *nn.Program, w *weights) (_ *plans, err error) {
	ps := &plans{}
	defer func() {
		if err != nil {
			ps.close()
		}
	}()
	if ps.begin, err = planned(p.Bufs, p.Begin); err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	for il, ops := range p.Encoder {
		l, err := kernel.NewPlan(p.Bufs, ops...)
		if err != nil {
			return nil, fmt.Errorf("layer %d of the encoder: %w", il, err)
		}
		ps.encoder = append(ps.encoder, l)
	}
	ps.steps = w.steps(p)
	for _, s := range ps.steps {
		l, err := kernel.NewPlan(p.Bufs, s.ops...)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", s.layer, err)
		}
		ps.layers = append(ps.layers, l)
	}
	ps.encode = kernel.NewChain(slices.Concat(ps.begin, ps.encoder)...)
	ps.forward = kernel.NewChain(slices.Concat(ps.begin, ps.layers)...)
	if ps.prefetches, err = w.prefetches(p, ps.steps); err != nil {
		return nil, err
	}
	for _, out := range p.Outputs {
		o, err := kernel.NewPlan(p.Bufs, out.Ops...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", out.Name, err)
		}
		ps.outputs = append(ps.outputs, o)
	}
	if err = ps.next.init(p); err != nil {
		return nil, fmt.Errorf("the layer that predicts further tokens: %w", err)
	}
	return ps, nil
}

// checkPlans checks every operation of a program. Those of an encoder of rows may be more than a plan has: see stage.
func checkPlans(p *nn.Program, w *weights) error {
	if p.Cuts == nil {
		ps, err := newPlans(p, w)
		if err != nil {
			return err
		}
		ps.close()
		return nil
	}
	check := func(what string, ops []kernel.Op) error {
		all, err := planned(p.Bufs, ops)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		all.close()
		return nil
	}
	if err := check("patches", p.Begin); err != nil {
		return err
	}
	for il, ops := range p.Layers {
		if err := check(fmt.Sprintf("layer %d", il), ops); err != nil {
			return err
		}
	}
	for _, out := range p.Outputs {
		if err := check(out.Name, out.Ops); err != nil {
			return err
		}
	}
	return nil
}

// all returns the plans in execution order.
func (ps *plans) all() []*kernel.Plan {
	var guesses []*kernel.Plan
	for _, a := range ps.prefetches {
		if a.plan != nil {
			guesses = append(guesses, a.plan)
		}
	}
	return slices.Concat(ps.begin, ps.encoder, ps.layers, guesses, ps.outputs, ps.next.all())
}

// scratch returns the maximum scratch bytes per thread of any plan.
func (ps *plans) scratch(maxTok int) int {
	n := 0
	for _, p := range ps.all() {
		n = max(n, p.Scratch(maxTok))
	}
	return kernel.AlignUp(n)
}

func (ps *plans) close() {
	for _, ch := range []*kernel.Chain{ps.encode, ps.forward} {
		if ch != nil {
			ch.Close()
		}
	}
	for _, p := range ps.all() {
		if p != nil {
			p.Close()
		}
	}
}

// parts are operations in several plans, which run one after another: a plan has no more than threads may share at a time.
type parts []*kernel.Plan

// mostOps is at most half of what C allows, since some operations count twice.
const mostOps = 64

func planned(specs []kernel.BufSpec, ops []kernel.Op) (all parts, err error) {
	for some := range slices.Chunk(ops, mostOps) {
		plan, err := kernel.NewPlan(specs, some...)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, plan)
	}
	return all, nil
}

func (all parts) close() {
	for _, p := range all {
		p.Close()
	}
}

func (all parts) run(pool *kernel.Pool, bufs *kernel.Buffers, batch *kernel.Batch, scratch []byte) {
	for _, p := range all {
		p.Run(pool, bufs, batch, scratch)
	}
}

// scratch returns the bytes of scratch that a thread needs for n tokens, and brings how many columns of tokens' rows are read.
func (all parts) scratch(n int) (bytes int) {
	for _, p := range all {
		bytes = max(bytes, p.Scratch(n))
	}
	return bytes
}

func (all parts) brings() (columns int) {
	for _, p := range all {
		columns = max(columns, p.Brings())
	}
	return columns
}
