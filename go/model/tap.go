package model

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/quern-llm/quern/go/kernel"
)

// A Tapped is what the matrices of a tensor were multiplied by, since Runner.Tap.
type Tapped struct {
	Tensor string
	Sums   []float64 // of squares: [matrix][column]
	Counts []int64   // [matrix]: rows

	Products []float32 // of each two columns of a span, as kernel.Tap has them; nil where they were not asked for
}

// Tap starts new sums of what products multiply by, to which the passes that follow add, or, if on is false, ends them.
func (r *Runner) Tap(on bool) {
	for _, p := range r.plans.all() {
		p.Tap(on)
	}
}

// TapProducts has the sums that Tap started count products of columns as well, for the products of those tensors that want
// returns a span for; 0 is none. A product of several tensors has the first span that is asked for. Where the same tensors are
// multiplied again, as by layers that run several times, all of their uses add to the same products.
func (r *Runner) TapProducts(want func(tensor string) (span int)) {
	type owner struct {
		tensors  []string
		span     int
		products []float32
	}
	owners := map[string]*owner{}
	r.tapped(func(p *kernel.Plan, tap kernel.Tap, tensors []string) {
		o := &owner{}
		fresh := false
		for _, name := range tensors {
			if span := want(name); span > 0 {
				o.tensors, o.span = append(o.tensors, name), cmp.Or(o.span, span)
				fresh = fresh || owners[name] == nil
			}
		}
		if !fresh {
			if o.tensors == nil {
				return
			}
			if first := owners[o.tensors[0]]; slices.Equal(first.tensors, o.tensors) {
				p.TapProducts(tap.Op, first.span, first.products)
			}
			return
		}
		if o.products = p.TapProducts(tap.Op, o.span, nil); o.products == nil {
			return
		}
		for _, name := range o.tensors {
			if owners[name] == nil {
				owners[name] = o
			}
		}
	})
}

// Tapped calls visit with the sums of each tensor that was multiplied by rows as they are. A tensor that is used more than
// once is visited each time; products that uses have in common are those of all of them.
func (r *Runner) Tapped(visit func(Tapped)) {
	r.tapped(func(_ *kernel.Plan, tap kernel.Tap, tensors []string) {
		for _, name := range tensors {
			visit(Tapped{name, tap.Sums, tap.Counts, tap.Products})
		}
	})
}

// tapped calls visit with each product and its tensors.
func (r *Runner) tapped(visit func(p *kernel.Plan, tap kernel.Tap, tensors []string)) {
	tensors := map[*byte]*matrix{}
	for _, m := range r.weights.mats {
		if !m.transposed {
			tensors[unsafe.SliceData(m.Data)] = m
		}
	}
	add := func(p *kernel.Plan, ops []kernel.Op) {
		for _, tap := range p.Taps() {
			op, ok := ops[tap.Op].(kernel.Matmul)
			if !ok {
				continue
			}
			var seen []string
			for _, part := range op.Parts {
				m := tensors[unsafe.SliceData(part.Data)]
				if m == nil {
					continue
				}
				for _, t := range m.parts {
					// The matrices of a tensor are those of the operation, or it is a part of the only one.
					if whole := len(tap.Counts) == 1 || len(t.Dims) == 3 && int(t.Dims[2]) == len(tap.Counts); whole && !slices.Contains(seen, t.Name) {
						seen = append(seen, t.Name)
					}
				}
			}
			visit(p, tap, seen)
		}
	}
	for il, p := range r.plans.encoder {
		add(p, r.program.Encoder[il])
	}
	for i, p := range r.plans.layers {
		add(p, r.plans.steps[i].ops)
	}
	for i, p := range r.plans.outputs {
		add(p, r.program.Outputs[i].Ops)
	}
}
