package model

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/quern-llm/quern/go/kernel"
)

// A Tapped is the sums over the inputs of a tensor's matrices since Runner.Tap.
type Tapped struct {
	Tensor string
	Sums   []float64 // of squares: [matrix][column]
	Counts []int64   // [matrix]: rows

	Products []float32 // of each two columns of a span, as kernel.Tap has them; nil where they were not asked for
}

// Tap starts new sums over the inputs of products, for the passes that follow, or, if on is false, stops
// summing.
func (r *Runner) Tap(on bool) {
	for _, p := range r.plans.all() {
		p.Tap(on)
	}
}

// TapProducts makes the sums started by Tap include products of pairs of columns, for the tensors for which
// want returns a span; 0 is none. A product of several tensors uses the first span. All uses of the same
// tensors, as in layers that run several times, add to the same sums.
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

// Tapped calls visit with the sums of each tensor that was multiplied by unmodified rows. A tensor used more
// than once is visited each time; sums that its uses share are those of all uses.
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
		if m.remade == nil {
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
