package model

import (
	"cmp"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// Products of an adapter with magnitudes are kept as the product alone, z, and what becomes of it, y: z times the gain of each
// row, plus the adapter's term, plus the bias. That is how the one operation computes it that is served, step by step, so the
// bits are the same. Gradients of magnitudes need z, and gains are constants of a pass.

// turned keeps a product with gains that is stored, and its rule.
func (r *reversal) turned(op kernel.Matmul, reads []kernel.Buf, from *made) {
	last := op.Parts[len(op.Parts)-1]
	z, scale := r.rowsLike(op.Dst, last.Col+last.Out), cmp.Or(op.Scale, 1)
	plain := op
	plain.Dst, plain.Scale, plain.Limit, plain.Deltas, plain.Gains = z, 1, 0, nil, nil
	plain.Parts = slices.Clone(op.Parts)
	for i := range plain.Parts {
		plain.Parts[i].Bias = nil
	}
	r.emit(plain, reads, z)
	r.product(plain, from, op.Dst, scale)
	step := func(p kernel.Part, n kernel.NormRows) {
		n.Dst, n.DstCol, n.Rows, n.Cols, n.Segs, n.Kind, n.Scale = op.Dst, p.Col, op.Rows, p.Out, 1, kernel.NoNorm, cmp.Or(n.Scale, 1)
		var reads []kernel.Buf
		if n.Src != op.Dst { // which others may write columns of: it does not count as read
			reads = append(reads, n.Src)
		}
		r.emit(n, reads, op.Dst)
	}
	by := make([][]float32, len(op.Parts))
	for i, p := range op.Parts {
		if op.Gains[i] != 0 {
			by[i], _ = r.train[p.Name].turned.part(p)
		}
		step(p, kernel.NormRows{Src: z, SrcCol: p.Col, Weight: by[i]})
		if op.Deltas[i] >= 0 {
			step(p, kernel.NormRows{Src: op.Delta, SrcCol: op.Deltas[i], Epilogue: kernel.Add})
		}
		if p.Bias != nil || scale != 1 {
			step(p, kernel.NormRows{Src: op.Dst, SrcCol: p.Col, Bias: p.Bias, Scale: scale})
		}
	}
	dz, dy := r.gradientBeside(z), r.gradientBeside(op.Dst)
	r.then(func() error {
		for i, p := range op.Parts {
			of, err := r.given(kernel.Columns{Buf: dy, Col: p.Col})
			if err != nil {
				return err
			}
			r.has[kernel.Columns{Buf: dz, Col: p.Col}] = true
			r.back = append(r.back, kernel.NormRows{
				Dst: dz, DstCol: p.Col, Src: dy, SrcCol: p.Col, Rows: op.Rows, Cols: p.Out, Segs: 1, Kind: kernel.NoNorm, Weight: by[i],
				Scale: scale,
			})
			if by[i] != nil {
				_, dm := r.train[p.Name].turned.part(p)
				r.back = append(r.back, kernel.BackV{
					DV: dm, DY: of, X: kernel.Columns{Buf: z, Col: p.Col}, Rows: op.Rows, Cols: p.Out, Segs: 1, Scale: scale,
				})
			}
		}
		return nil
	})
}

// addTurned keeps a product with gains that is added to what dst, a copy that was made for it, has.
func (r *reversal) addTurned(op kernel.Matmul, reads []kernel.Buf, from *made) error {
	dst, scale, last := op.Dst, cmp.Or(op.Scale, 1), op.Parts[len(op.Parts)-1]
	y := r.rowsLike(dst, last.Col+last.Out)
	op.Dst, op.Epilogue, op.Scale = y, kernel.Store, 1
	r.turned(op, reads, from)
	dy, sum := r.gradientBeside(y), r.gradientBeside(dst)
	for _, p := range op.Parts {
		r.emit(kernel.NormRows{
			Dst: dst, DstCol: p.Col, Src: y, SrcCol: p.Col, Rows: op.Rows, Cols: p.Out, Segs: 1, Kind: kernel.NoNorm, Scale: scale,
			Epilogue: kernel.Add,
		}, []kernel.Buf{y}, dst)
	}
	r.then(func() error {
		for _, p := range op.Parts {
			if _, err := r.given(kernel.Columns{Buf: sum, Col: p.Col}); err != nil {
				return err
			}
			r.has[kernel.Columns{Buf: dy, Col: p.Col}] = true
			r.scale(kernel.Columns{Buf: dy, Col: p.Col}, kernel.Columns{Buf: sum, Col: p.Col}, op.Rows, p.Out, scale)
		}
		return nil
	})
	return nil
}

// scale adds the operation that makes gradients of n columns others, times a number.
func (r *reversal) scale(dst, src kernel.Columns, rows kernel.RowSet, n int, by float32) {
	r.back = append(r.back, kernel.NormRows{
		Dst: dst.Buf, DstCol: dst.Col, Src: src.Buf, SrcCol: src.Col, Rows: rows, Cols: n, Segs: 1, Kind: kernel.NoNorm, Scale: by,
	})
}
