package model

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// embed keeps a row of a table for each token, whose reverse is the table's gradient.
func (r *reversal) embed(op kernel.Embed) error {
	if !r.all() || op.By == kernel.ByAnswer {
		return errNoRule
	}
	var dst kernel.Buf
	var err error
	if op.Add {
		_, dst, err = r.copied(op.Dst)
	} else {
		dst, err = r.written(op.Dst, 0)
	}
	if err != nil {
		return err
	}
	dy := kernel.Columns{Buf: r.gradientBeside(dst)}
	op.Dst = dst
	r.emit(op, nil, dst)
	r.then(func() error {
		if _, err := r.given(dy); err != nil {
			return err
		}
		d, err := r.weights.matrix(op.Table)
		if err != nil {
			return err
		}
		r.back = append(r.back, kernel.BackEmbed{DTable: d, Src: dy.Buf, Cols: op.Table.In, By: op.By, Scale: op.Scale})
		return nil
	})
	return nil
}

// headNorms keeps norms of queries and keys as operations of their own, whose weights have gradients, and takes them out of
// the operation that stores them.
func (r *reversal) headNorms(op *kernel.StoreKV) error {
	if !r.all() || op.QNorm == nil && op.KNorm == nil {
		return nil
	}
	if op.RopeFirst {
		return errors.New("gradients of norms behind a rotation are not known yet")
	}
	for i, weight := range [][]float32{op.QNorm, op.KNorm} {
		if weight == nil {
			continue
		}
		norm := kernel.NormRows{
			Dst: op.QKV, Src: op.QKV, DstCol: op.Col[i], SrcCol: op.Col[i], Rows: kernel.TokRows, Cols: op.HeadDim,
			Segs: [2]int{op.NHead, op.NHeadKV}[i], Kind: kernel.RMS, Weight: weight, Eps: op.Eps, Scale: 1,
		}
		if err := r.normRows(norm); err != nil {
			return err
		}
	}
	op.QNorm, op.KNorm = nil, nil
	return nil
}

// all reports whether all weights are trained.
func (r *reversal) all() bool { return r.weights != nil && r.weights.all }

// normWeights adds gradients of a norm's weights and biases, given those of its result.
func (r *reversal) normWeights(op kernel.NormRows, dy kernel.Columns) error {
	if !r.all() {
		return nil
	}
	cols, segs := op.Cols, op.Segs
	if op.SegWeights {
		cols, segs = cols*segs, 1
	}
	if op.Weight != nil {
		d, err := r.weights.vector(op.Weight, cols)
		if err != nil {
			return err
		}
		z := r.rows(op.Rows, op.Cols*op.Segs)
		r.back = append(r.back,
			kernel.NormRows{
				Dst: z, Src: op.Src, SrcCol: op.SrcCol, Rows: op.Rows, Cols: op.Cols, Segs: op.Segs, Kind: op.Kind,
				Eps: op.Eps, Scale: 1,
			},
			kernel.BackV{DV: d, DY: dy, X: kernel.Columns{Buf: z}, Rows: op.Rows, Cols: cols, Segs: segs, Scale: op.Scale})
	}
	if op.Bias == nil {
		return nil
	}
	return r.bias(op.Bias, dy, op.Rows, cols, segs, op.Scale)
}

// bias adds gradients of what was added to columns of each segment, times scale.
func (r *reversal) bias(v []float32, dy kernel.Columns, rows kernel.RowSet, cols, segs int, scale float32) error {
	d, err := r.weights.vector(v, cols)
	if err != nil || d == nil {
		return err
	}
	r.back = append(r.back, kernel.BackV{
		DV: d, DY: dy, X: kernel.Columns{Buf: kernel.NoBuf}, Rows: rows, Cols: cols, Segs: segs, Scale: scale,
	})
	return nil
}

// matrixWeights adds gradients of a matrix of a product and of its bias, given those of the result.
func (r *reversal) matrixWeights(op kernel.Matmul, p kernel.Part, dy kernel.Columns, from *made) error {
	if r.weights == nil {
		return nil
	}
	d, err := r.weights.matrix(p.Matrix)
	if err != nil || d == nil {
		return err
	}
	if from.floats == kernel.NoBuf {
		return fmt.Errorf("%q is not multiplied with floats", p.Name)
	}
	scale := cmp.Or(op.Scale, 1)
	r.back = append(r.back, kernel.BackW{
		DW: d, Src: dy, Act: from.floats, Rows: op.Rows, In: p.In, Out: p.Out, Scale: scale,
	})
	if p.Bias == nil {
		return nil
	}
	return r.bias(p.Bias, dy, op.Rows, p.Out, 1, scale)
}
