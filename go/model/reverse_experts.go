package model

import (
	"errors"
	"maps"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// Gradients go through the experts of a mixture, whose matrices stay, and through the weights that a router gives them. Which
// experts a token uses is taken as it is.

// rowsLike returns a buffer of floats with the rows of another, and so many columns.
func (r *reversal) rowsLike(b kernel.Buf, width int) kernel.Buf {
	spec := rowsOnly(r.p.Bufs[b])
	spec.Kind = kernel.Floats
	return r.fresh(spec, kernel.Pad(width))
}

// routed returns where this list has the routing of pairs; of other rows there is none.
func (r *reversal) routed(rows kernel.RowSet, route kernel.Buf) (kernel.Buf, error) {
	switch {
	case simple(rows):
		return route, nil
	case rows != kernel.PairRows || r.all():
		return 0, errNoRule
	}
	return r.at(route)
}

// sources returns where this list has activations, and what they are made of.
func (r *reversal) sources(act kernel.Act) (kernel.Act, []kernel.Buf, *made, error) {
	var from *made
	var reads []kernel.Buf
	to := kernel.Act{}
	for _, kind := range slices.Sorted(maps.Keys(act)) {
		b, err := r.at(act[kind])
		if err != nil {
			return nil, nil, nil, err
		}
		to[kind] = b
		reads = append(reads, b)
		if m := r.acts[b]; m == nil || from != nil && from != m {
			return nil, nil, nil, errNoRule
		} else if from = m; from.floats != kernel.NoBuf {
			reads = append(reads, from.floats)
		}
	}
	return to, reads, from, nil
}

func (r *reversal) moeRoute(op kernel.MoeRoute) error {
	if op.Same != 0 || r.all() {
		return errNoRule
	}
	src, err := r.at(op.Src)
	if err != nil {
		return err
	}
	op.Src, op.Dst = src, r.anew(op.Dst)
	r.emit(op, []kernel.Buf{src}, op.Dst)
	to := kernel.Columns{Buf: r.gradientBeside(src)}
	r.then(func() error {
		weights, ok := r.ofChoices[op.Dst]
		if !ok {
			return errors.New("nothing makes gradients of its result")
		}
		if !r.first(to) {
			return errNoRule // they would have to be added
		}
		r.back = append(r.back, kernel.BackRoute{MoeRoute: op, DWeight: weights, DLogits: to.Buf})
		return nil
	})
	return nil
}

// choices returns a buffer for gradients of the weights of a routing, which one operation makes.
func (r *reversal) choices(route kernel.Buf) (kernel.Buf, error) {
	if _, ok := r.ofChoices[route]; ok {
		return 0, errNoRule // they would have to be added
	}
	b := r.rows(kernel.TokRows, r.p.Bufs[route].NUsed)
	r.ofChoices[route] = b
	return b, nil
}

func (r *reversal) moeGather(op kernel.MoeGather) error {
	route, err := r.routed(kernel.PairRows, op.Route)
	if err != nil {
		return err
	}
	src, reads, from, err := r.sources(op.Src)
	if err != nil {
		return err
	}
	var one kernel.Buf
	for _, b := range op.Dst {
		one = b
	}
	m := &made{gradients: kernel.Columns{Buf: r.rowsLike(one, op.Cols)}}
	var writes []kernel.Buf
	op.Src, op.Route = src, route
	op.Dst, writes = r.activations(op.Dst, m)
	r.emit(op, append(reads, route), writes...)
	r.then(func() error {
		dy, err := r.given(m.gradients)
		if err != nil {
			return err
		}
		back := kernel.BackPairs{
			DY: dy.Buf, X: kernel.NoBuf, Route: route, Dst: from.gradients, Cols: op.Cols, Weigh: op.Weigh,
		}
		if op.Weigh {
			if back.X = from.floats; back.X == kernel.NoBuf {
				return errNoRule
			}
			if back.DWeight, err = r.choices(route); err != nil {
				return err
			}
		}
		back.Add = !r.first(from.gradients)
		r.back = append(r.back, back)
		return nil
	})
	return nil
}

func (r *reversal) moeCombine(op kernel.MoeCombine) error {
	if op.ReturnsSame || op.Col != 0 || op.Cols != 0 {
		return errNoRule
	}
	route, err := r.routed(kernel.PairRows, op.Route)
	if err != nil {
		return err
	}
	src, err := r.at(op.Src)
	if err != nil {
		return err
	}
	var dst kernel.Buf
	if op.Store {
		dst, err = r.written(op.Dst, 0)
	} else {
		_, dst, err = r.copied(op.Dst)
	}
	if err != nil {
		return err
	}
	cols := r.results[src]
	if cols == 0 {
		return errNoRule
	}
	op.Src, op.Dst, op.Route, op.Cols = src, dst, route, cols // buffers may have more than the program's
	r.emit(op, []kernel.Buf{src, route}, dst)
	from, dy := kernel.Columns{Buf: r.gradientBeside(src)}, kernel.Columns{Buf: r.gradientBeside(dst)}
	r.then(func() error {
		if _, err := r.given(dy); err != nil {
			return err
		}
		if !r.first(from) {
			return errNoRule
		}
		back := kernel.BackCombine{Dst: from.Buf, X: src, DY: dy.Buf, Route: route, Cols: cols, Weighed: op.Weighed}
		if !op.Weighed {
			if back.DWeight, err = r.choices(route); err != nil {
				return err
			}
		}
		r.back = append(r.back, back)
		return nil
	})
	return nil
}

func (r *reversal) xielu(op kernel.XIELU) error {
	if !simple(op.Rows) {
		return errNoRule
	}
	was, dst, err := r.copied(op.Dst)
	if err != nil {
		return err
	}
	op.Dst = dst
	back := kernel.BackXIELU{XIELU: op, X: was}
	back.Dst = r.gradientBeside(dst)
	r.emit(op, nil, dst)
	r.then(func() error {
		if _, err := r.given(kernel.Columns{Buf: back.Dst}); err != nil {
			return err
		}
		r.back = append(r.back, back)
		return nil
	})
	return nil
}
