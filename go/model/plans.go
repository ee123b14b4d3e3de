package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/arch"
)

// plans is a program laid out for C.
type plans struct {
	begin, end *kernel.Plan
	layers     []*kernel.Plan
}

func newPlans(p *arch.Program) (*plans, error) {
	ps := &plans{}
	var err error
	if ps.begin, err = kernel.NewPlan(p.Bufs, p.Begin...); err != nil {
		return nil, fmt.Errorf("embedding: %w", err)
	}
	for il, ops := range p.Layers {
		l, err := kernel.NewPlan(p.Bufs, ops...)
		if err != nil {
			ps.close()
			return nil, fmt.Errorf("layer %d: %w", il, err)
		}
		ps.layers = append(ps.layers, l)
	}
	if ps.end, err = kernel.NewPlan(p.Bufs, p.End...); err != nil {
		ps.close()
		return nil, fmt.Errorf("output: %w", err)
	}
	return ps, nil
}

// scratch returns the bytes that one thread needs for any of the plans.
func (ps *plans) scratch(maxTok int) int {
	n := max(ps.begin.Scratch(maxTok), ps.end.Scratch(maxTok))
	for _, l := range ps.layers {
		n = max(n, l.Scratch(maxTok))
	}
	return kernel.AlignUp(n)
}

// all returns those that there are.
func (ps *plans) all() []*kernel.Plan {
	return append([]*kernel.Plan{ps.begin, ps.end}, ps.layers...)
}

func (ps *plans) close() {
	for _, p := range ps.all() {
		if p != nil {
			p.Close()
		}
	}
}
