package model

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// Numbers beyond a limit have no gradient. What is left up to the limit is kept, and gradients pass where it is above 0, as
// those of ReLU do.

// constant returns n numbers v, outside the Go heap.
func (r *reversal) constant(v float32, n int) ([]float32, error) {
	if c := r.constants[v]; len(c) >= n {
		return c, nil
	}
	c, err := r.alloc(kernel.Pad(n))
	if err != nil {
		return nil, err
	}
	for i := range c {
		c[i] = v
	}
	r.constants[v] = c
	return c, nil
}

// below returns the operation that leaves gradients d of n columns x only where sign * x is below the limit.
func (r *reversal) below(limit, sign float32, d, x kernel.Columns, rows kernel.RowSet, route kernel.Buf, n int) (kernel.Op, error) {
	c, err := r.constant(-sign*limit, n)
	if err != nil {
		return nil, err
	}
	left := r.rowsLike(x.Buf, n)
	r.emit(kernel.NormRows{ // limit - sign * x
		Dst: left, Src: x.Buf, SrcCol: x.Col, Rows: rows, Cols: n, Segs: 1, Kind: kernel.NoNorm, Bias: c, Scale: -sign,
		Route: route,
	}, []kernel.Buf{x.Buf}, left)
	return kernel.BackGate{
		DG: d, G: kernel.Columns{Buf: left}, U: kernel.Columns{Buf: kernel.NoBuf}, DY: d, Rows: rows, Cols: n, Fn: kernel.ReLU, Route: route,
	}, nil
}

// limited keeps a product whose results are within a limit as the product, and what is within.
func (r *reversal) limited(op kernel.Matmul, reads []kernel.Buf, from *made) error {
	var cols []int
	for _, p := range op.Parts {
		cols = append(cols, p.Col)
	}
	dst, err := r.written(op.Dst, cols...)
	if err != nil {
		return err
	}
	limit, last := op.Limit, op.Parts[len(op.Parts)-1]
	z := r.rowsLike(dst, last.Col+last.Out)
	op.Dst, op.Limit = z, 0
	r.produce(op, reads, from)
	dz, dy := r.gradientBeside(z), r.gradientBeside(dst)
	var back []kernel.Op
	for _, p := range op.Parts {
		at, d := kernel.Columns{Buf: z, Col: p.Col}, kernel.Columns{Buf: dz, Col: p.Col}
		r.emit(kernel.NormRows{
			Dst: dst, DstCol: p.Col, Src: z, SrcCol: p.Col, Rows: op.Rows, Cols: p.Out, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			Low: -limit, High: limit, Route: op.Route,
		}, []kernel.Buf{z}, dst)
		back = append(back, kernel.NormRows{
			Dst: dz, DstCol: p.Col, Src: dy, SrcCol: p.Col, Rows: op.Rows, Cols: p.Out, Segs: 1, Kind: kernel.NoNorm, Scale: 1,
			Route: op.Route,
		})
		for _, sign := range []float32{1, -1} {
			pass, err := r.below(limit, sign, d, at, op.Rows, op.Route, p.Out)
			if err != nil {
				return err
			}
			back = append(back, pass)
		}
	}
	r.then(func() error {
		for _, p := range op.Parts {
			if _, err := r.given(kernel.Columns{Buf: dy, Col: p.Col}); err != nil {
				return err
			}
			r.has[kernel.Columns{Buf: dz, Col: p.Col}] = true
		}
		r.back = append(r.back, back...)
		return nil
	})
	return nil
}

// clamped makes a gate that of numbers up to a limit, and of factors within it, where there is one, and returns what follows the
// gate's reverse. SwiGLUClamp has a limit of its own, and factors that count as 1 + u.
func (r *reversal) clamped(gate *kernel.BackGate, limit float32) ([]kernel.Op, error) {
	more := float32(0)
	if gate.Fn == kernel.SwiGLUClamp {
		gate.Fn, limit, more = kernel.GELUQuick, 7, 1
	}
	if limit == 0 {
		return nil, nil
	}
	one, err := r.constant(more, gate.Cols)
	if err != nil {
		return nil, err
	}
	g, u := gate.G, gate.U
	within := func(x kernel.Columns, bias []float32, low, high float32) kernel.Columns {
		b := r.rowsLike(x.Buf, gate.Cols)
		r.emit(kernel.NormRows{
			Dst: b, Src: x.Buf, SrcCol: x.Col, Rows: gate.Rows, Cols: gate.Cols, Segs: 1, Kind: kernel.NoNorm, Bias: bias, Scale: 1,
			Low: low, High: high, Route: gate.Route,
		}, []kernel.Buf{x.Buf}, b)
		return kernel.Columns{Buf: b}
	}
	gate.G, gate.U = within(g, nil, -math.MaxFloat32, limit), within(u, one, more-limit, more+limit)
	var after []kernel.Op
	for _, x := range []struct {
		sign  float32
		d, of kernel.Columns
	}{{1, gate.DG, g}, {1, gate.DU, u}, {-1, gate.DU, u}} {
		pass, err := r.below(limit, x.sign, x.d, x.of, gate.Rows, gate.Route, gate.Cols)
		if err != nil {
			return nil, err
		}
		after = append(after, pass)
	}
	return after, nil
}
