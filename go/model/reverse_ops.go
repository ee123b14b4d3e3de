package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// simple reports whether rows are tokens', or those of outputs.
func simple(rows kernel.RowSet) bool { return rows == kernel.TokRows || rows == kernel.OutRows }

func (r *reversal) norm(op kernel.Norm) error {
	if !simple(op.Rows) {
		return errNoRule
	}
	src, err := r.at(op.Src)
	if err != nil {
		return err
	}
	dst := kernel.Columns{Buf: r.gradientBeside(src), Col: op.SrcCol}
	m := &made{gradients: kernel.Columns{Buf: r.rows(op.Rows, op.Cols)}}
	var writes []kernel.Buf
	op.Act, writes = r.activations(op.Act, m)
	op.Src = src
	r.emit(op, []kernel.Buf{src}, writes...)
	r.then(func() error {
		dy, err := r.given(m.gradients)
		if err != nil {
			return err
		}
		if err := r.normWeights(kernel.NormRows{
			Src: src, SrcCol: op.SrcCol, Rows: op.Rows, Cols: op.Cols, Segs: 1, Kind: op.Kind, Weight: op.Weight,
			Bias: op.Bias, Eps: op.Eps, Scale: 1,
		}, dy); err != nil {
			return err
		}
		r.back = append(r.back, kernel.BackNorm{
			Dst: dst, X: kernel.Columns{Buf: src, Col: op.SrcCol}, DY: dy, Rows: op.Rows, Cols: op.Cols, Segs: 1,
			Kind: op.Kind, Weight: op.Weight, Eps: op.Eps, Scale: 1, Add: !r.first(dst),
		})
		return nil
	})
	return nil
}

func (r *reversal) normRows(op kernel.NormRows) error {
	if !simple(op.Rows) || op.Low != op.High {
		return errNoRule
	}
	inPlace := op.Dst == op.Src && op.DstCol == op.SrcCol
	beside := op.Dst == op.Src && !inPlace // as values that are keys without their norm
	if n := op.Cols * op.Segs; op.Dst == op.Src && op.Epilogue == kernel.Add || beside && op.DstCol < op.SrcCol+n && op.SrcCol < op.DstCol+n {
		return errNoRule
	}
	src, err := r.at(op.Src)
	if err != nil {
		return err
	}
	var dst kernel.Buf
	switch {
	case inPlace || op.Epilogue == kernel.Add:
		_, dst, err = r.copied(op.Dst)
	case beside: // the source stays: what follows may change it in place
		_, dst, err = r.copied(op.Dst)
		r.wrote[dst] = append(slices.Clone(r.wrote[src]), op.DstCol)
	default:
		dst, err = r.written(op.Dst, op.DstCol)
	}
	if err != nil {
		return err
	}
	from, to := kernel.Columns{Buf: r.gradientBeside(src), Col: op.SrcCol}, kernel.Columns{Buf: r.gradientBeside(dst), Col: op.DstCol}
	at := kernel.Columns{Buf: src, Col: op.SrcCol}
	op.Src, op.Dst = src, dst
	r.emit(op, []kernel.Buf{src}, dst)
	r.then(func() error {
		dy, err := r.given(to)
		if err != nil {
			return err
		}
		if err := r.normWeights(op, dy); err != nil {
			return err
		}
		r.back = append(r.back, kernel.BackNorm{
			Dst: from, X: at, DY: dy, Rows: op.Rows, Cols: op.Cols, Segs: op.Segs, Kind: op.Kind, Weight: op.Weight,
			SegWeights: op.SegWeights, Eps: op.Eps, Scale: op.Scale, Add: !inPlace && !r.first(from),
		})
		return nil
	})
	return nil
}

func (r *reversal) toAct(op kernel.ToAct) error {
	if op.Block != 0 || op.Heads.N != 0 {
		return errNoRule
	}
	src, err := r.at(op.Src)
	if err != nil {
		return err
	}
	if op.Route, err = r.routed(op.Rows, op.Route); err != nil {
		return err
	}
	var writes []kernel.Buf
	op.Act, writes = r.activations(op.Act, &made{gradients: kernel.Columns{Buf: r.gradientBeside(src), Col: op.SrcCol}})
	op.Src = src
	r.emit(op, []kernel.Buf{src}, writes...)
	return nil
}

// adapt keeps the term of adapters, whose reverse is the product's. Nothing else reads its buffers.
func (r *reversal) adapt(op kernel.Adapt) error {
	if op.ByToken {
		return errNoRule
	}
	act, err := r.at(op.Act)
	if err != nil {
		return err
	}
	if op.Route, err = r.routed(op.Rows, op.Route); err != nil {
		return err
	}
	r.now[op.Dst] = op.Dst
	op.Act = act
	r.emit(op, []kernel.Buf{act}, op.Dst)
	return nil
}

func (r *reversal) matmul(op kernel.Matmul) error {
	if op.Heads.N != 0 || op.Softcap != 0 && op.Epilogue != kernel.Store {
		return errNoRule
	}
	if op.Limit != 0 && (op.Softcap != 0 || op.LimitFn || op.Epilogue != kernel.Store && op.Epilogue != kernel.GLU) {
		return errNoRule
	}
	act, reads, from, err := r.sources(op.Act)
	if err != nil {
		return err
	}
	if op.Route, err = r.routed(op.Rows, op.Route); err != nil {
		return err
	}
	op.Act = act
	if op.Rows == kernel.PairRows {
		reads = append(reads, op.Route)
	}
	if op.Deltas != nil {
		reads = append(reads, op.Delta)
	}
	var cols []int
	for _, p := range op.Parts {
		cols = append(cols, p.Col)
	}
	switch op.Epilogue {
	case kernel.Store:
		if op.Softcap != 0 && op.Dst != r.capped {
			return r.bounded(op, reads, from)
		}
		if op.Limit != 0 {
			return r.limited(op, reads, from)
		}
		op.Dst, err = r.written(op.Dst, cols...)
	case kernel.Add:
		_, op.Dst, err = r.copied(op.Dst)
	default:
		return r.gated(op, reads, from)
	}
	if err != nil {
		return err
	}
	if last := op.Parts[len(op.Parts)-1]; op.Epilogue == kernel.Store {
		r.results[op.Dst] = last.Col + last.Out
	} else if op.Gains != nil {
		return r.addTurned(op, reads, from)
	}
	r.produce(op, reads, from)
	return nil
}

// produce keeps a product that is stored, or added where it has no gains, and its rule.
func (r *reversal) produce(op kernel.Matmul, reads []kernel.Buf, from *made) {
	if op.Gains != nil {
		r.turned(op, reads, from)
		return
	}
	r.emit(op, reads, op.Dst)
	r.product(op, from, op.Dst, 1)
}

// gated keeps a product with a gate, or with a function of its result, as the product and what is made of it.
func (r *reversal) gated(op kernel.Matmul, reads []kernel.Buf, from *made) error {
	if op.Fn == kernel.SwiGLUClamp && op.Epilogue != kernel.GLU || op.Epilogue == kernel.GLU && len(op.Parts) != 2 || op.Epilogue == kernel.Apply && len(op.Parts) != 1 {
		return errNoRule
	}
	dst, err := r.written(op.Dst, op.Parts[0].Col)
	if err != nil {
		return err
	}
	n, next, whole := op.Parts[0].Out, kernel.Pad(op.Parts[0].Out), op
	whole.Dst = dst
	z := r.rowsLike(dst, len(op.Parts)*next)
	op.Dst, op.Epilogue, op.Scale, op.Limit = z, kernel.Store, 1, 0
	op.Parts = slices.Clone(op.Parts)
	for i := range op.Parts {
		op.Parts[i].Col = i * next
	}
	r.produce(op, reads, from)
	dz := r.gradientBeside(z)
	dy := kernel.Columns{Buf: r.gradientBeside(dst), Col: whole.Parts[0].Col}
	gate := kernel.BackGate{
		DG: kernel.Columns{Buf: dz}, G: kernel.Columns{Buf: z}, U: kernel.Columns{Buf: kernel.NoBuf}, DY: dy,
		Rows: op.Rows, Cols: n, Fn: op.Fn, Route: op.Route,
	}
	var after []kernel.Op
	if whole.Epilogue == kernel.Apply { // no operation is the function alone: the product is made twice
		r.emit(whole, reads, dst)
	} else {
		gate.U, gate.DU = kernel.Columns{Buf: z, Col: next}, kernel.Columns{Buf: dz, Col: next}
		if after, err = r.clamped(&gate, whole.Limit); err != nil {
			return err
		}
		r.emit(kernel.NormRows{
			Dst: dst, DstCol: dy.Col, Src: gate.U.Buf, SrcCol: gate.U.Col, Rows: op.Rows, Cols: n, Segs: 1, Kind: kernel.NoNorm,
			Scale: 1, Route: op.Route,
		}, []kernel.Buf{gate.U.Buf}, dst)
		r.emit(kernel.Gate{
			Dst: dst, DstCol: dy.Col, Src: gate.G.Buf, Rows: op.Rows, Cols: n, Fn: gate.Fn, Route: op.Route,
		}, []kernel.Buf{gate.G.Buf}, dst)
	}
	r.then(func() error {
		if _, err := r.given(dy); err != nil {
			return err
		}
		r.has[gate.DG], r.has[gate.DU] = true, true
		r.back = append(append(r.back, gate), after...)
		return nil
	})
	return nil
}

// bounded keeps a product z with a Softcap c: y = c tanh(z / c) = c (2 sigmoid(2 z / c) - 1), whose gradient is 4 times that of
// the sigmoid at 2 z / c.
func (r *reversal) bounded(op kernel.Matmul, reads []kernel.Buf, from *made) error {
	if len(op.Parts) != 1 {
		return errNoRule
	}
	p := op.Parts[0]
	dst, err := r.written(op.Dst, p.Col)
	if err != nil {
		return err
	}
	z, at := r.rows(op.Rows, p.Out), r.rows(op.Rows, p.Out)
	whole := op
	whole.Dst = dst
	op.Dst, op.Softcap, op.Parts = z, 0, []kernel.Part{{Matrix: p.Matrix, Bias: p.Bias}}
	r.emit(whole, reads, dst)
	r.produce(op, reads, from)
	r.scaled(kernel.Columns{Buf: at}, kernel.Columns{Buf: z}, op.Rows, p.Out, 2/whole.Softcap)
	dz, dy := kernel.Columns{Buf: r.gradientBeside(z)}, kernel.Columns{Buf: r.gradientBeside(dst), Col: p.Col}
	r.then(func() error {
		if _, err := r.given(dy); err != nil {
			return err
		}
		r.has[dz] = true
		r.back = append(r.back, kernel.BackGate{
			DG: dz, G: kernel.Columns{Buf: at}, U: kernel.Columns{Buf: kernel.NoBuf}, DY: dy, Rows: op.Rows, Cols: p.Out, Fn: kernel.Sigmoid,
		})
		r.scale(dz, dz, op.Rows, p.Out, 4)
		return nil
	})
	return nil
}

// copy keeps a copy of n columns.
func (r *reversal) copy(dst, src kernel.Columns, rows kernel.RowSet, n int) {
	r.scaled(dst, src, rows, n, 1)
}

// scaled keeps n columns times a number.
func (r *reversal) scaled(dst, src kernel.Columns, rows kernel.RowSet, n int, by float32) {
	r.emit(kernel.NormRows{
		Dst: dst.Buf, DstCol: dst.Col, Src: src.Buf, SrcCol: src.Col, Rows: rows, Cols: n, Segs: 1,
		Kind: kernel.NoNorm, Scale: by,
	}, []kernel.Buf{src.Buf}, dst.Buf)
}

// product adds the rule of a product into dst of this list: gradients of its input, and of the matrices that are trained. y is
// what becomes of the product by an adapter's gains and its term, times scale: dst, and 1, where there are no gains.
func (r *reversal) product(op kernel.Matmul, from *made, y kernel.Buf, scaleY float32) {
	for _, p := range op.Parts {
		if _, ok := r.train[p.Name]; ok && r.seen[p.Name] {
			r.twice = p.Name
		}
		r.seen[p.Name] = true
	}
	r.then(func() error {
		dst := r.gradientBeside(op.Dst)
		for _, p := range op.Parts {
			dy, err := r.given(kernel.Columns{Buf: dst, Col: p.Col})
			if err != nil {
				return err
			}
			spec := rowsOnly(r.p.Bufs[op.Dst])
			if spec.Kind = kernel.ActBF16; p.N != max(spec.NExpert, 1) || p.Layout != kernel.Rows {
				return fmt.Errorf("the rows of %q are not as they lie in a file, or there are several matrices", p.Name)
			}
			act := r.fresh(spec, kernel.Pad(p.Out))
			scale := cmp.Or(op.Scale, 1)
			r.back = append(r.back,
				kernel.ToAct{
					Act: kernel.Act{kernel.ActBF16: act}, Src: dy.Buf, SrcCol: dy.Col, Rows: op.Rows, Cols: p.Out, Route: op.Route,
				},
				kernel.BackX{
					Dst: from.gradients, Act: act, Rows: op.Rows, Matrix: p.Matrix, Add: !r.first(from.gradients), Scale: scale,
					Route: op.Route,
				})
			if err := r.matrixWeights(op, p, dy, from); err != nil {
				return err
			}
			l, ok := r.train[p.Name]
			if !ok || p.Name != l.mats[len(l.mats)-1] { // the last of parts is for all
				continue
			}
			if from.floats == kernel.NoBuf {
				return fmt.Errorf("%q has no adapter", p.Name)
			}
			b := l.b
			if l.turned != nil {
				b = l.turned.b
			}
			dy = kernel.Columns{Buf: r.gradientBeside(y), Col: dy.Col + p.Out - l.out}
			r.back = append(r.back, kernel.BackLow{
				Dst: from.gradients, Src: dy, Act: from.floats, Low: r.rowsLike(op.Dst, 2*l.rank), Rows: op.Rows,
				A: l.a, B: b, DA: l.da, DB: l.db, In: l.in, Out: l.out, Rank: l.rank, Scale: l.scale * scale * scaleY, Route: op.Route,
			})
		}
		return nil
	})
}

func (r *reversal) gate(op kernel.Gate) error {
	if !simple(op.Rows) || op.Fn == kernel.SwiGLUClamp || op.Dst == op.Src && op.DstCol == op.SrcCol {
		return errNoRule
	}
	src, err := r.at(op.Src)
	if err != nil {
		return err
	}
	was, dst, err := r.copied(op.Dst)
	if err != nil {
		return err
	}
	d := kernel.Columns{Buf: r.gradientBeside(dst), Col: op.DstCol}
	gate := kernel.BackGate{
		DG: kernel.Columns{Buf: r.gradientBeside(src), Col: op.SrcCol}, DU: d, DY: d,
		G: kernel.Columns{Buf: src, Col: op.SrcCol}, U: kernel.Columns{Buf: was, Col: op.DstCol},
		Rows: op.Rows, Cols: op.Cols, ByRow: op.ByRow, Segs: op.Segs, Fn: op.Fn,
	}
	op.Src, op.Dst = src, dst
	r.emit(op, []kernel.Buf{src}, dst)
	r.then(func() error {
		if _, err := r.given(d); err != nil {
			return err
		}
		if !r.first(gate.DG) {
			return errNoRule // it would have to be added
		}
		r.back = append(r.back, gate)
		return nil
	})
	return nil
}

func (r *reversal) storeKV(op kernel.StoreKV) error {
	if op.QueriesOnly || op.InKeys || len(op.Tiers) > 0 {
		return errNoRule
	}
	if err := r.headNorms(&op); err != nil {
		return err
	}
	was := kernel.NoBuf
	var buf kernel.Buf
	var err error
	if op.QNorm != nil || op.KNorm != nil {
		was, buf, err = r.copied(op.QKV)
	} else {
		buf, err = r.at(op.QKV)
	}
	if err != nil {
		return err
	}
	op.QKV = buf
	back := kernel.BackStoreKV{StoreKV: op, Was: was}
	back.QKV = r.gradientBeside(buf)
	r.emit(op, nil, buf)
	r.then(func() error {
		for _, col := range op.Col {
			if _, err := r.given(kernel.Columns{Buf: back.QKV, Col: col}); err != nil {
				return err
			}
		}
		r.back = append(r.back, back)
		return nil
	})
	return nil
}

func (r *reversal) attend(op kernel.Attend) error {
	if op.InKeys || len(op.Tiers) > 0 || op.Side != kernel.AnySide || op.Sight != kernel.NoSight ||
		op.Beyond != 0 || op.Relative.At != nil || op.Best != 0 || op.Entries.Every != 0 {
		return errNoRule
	}
	if r.all() && op.Sinks != nil {
		return errors.New("gradients of sinks are not known yet")
	}
	qkv, err := r.at(op.QKV)
	if err != nil {
		return err
	}
	op.QKV = qkv
	if op.Dst, err = r.written(op.Dst, 0); err != nil {
		return err
	}
	dqkv, dy := r.gradientBeside(qkv), kernel.Columns{Buf: r.gradientBeside(op.Dst)}
	r.emit(op, []kernel.Buf{qkv}, op.Dst)
	r.then(func() error {
		if _, err := r.given(dy); err != nil {
			return err
		}
		for _, col := range op.Col {
			if !r.first(kernel.Columns{Buf: dqkv, Col: col}) {
				return errNoRule
			}
		}
		r.back = append(r.back, kernel.BackAttend{Attend: op, DQKV: dqkv, DY: dy.Buf, Stats: r.rows(kernel.TokRows, 2*op.NHead)})
		return nil
	})
	return nil
}

func (r *reversal) gather(op kernel.Gather) error {
	if op.N > 1 {
		return errNoRule
	}
	src, err := r.at(op.Src)
	if err != nil {
		return err
	}
	op.Src = src
	if op.Dst, err = r.written(op.Dst, 0); err != nil {
		return err
	}
	to := r.gradientBeside(src)
	from := kernel.Columns{Buf: r.gradientBeside(op.Dst)}
	r.emit(op, []kernel.Buf{src}, op.Dst)
	r.then(func() error {
		if _, err := r.given(from); err != nil {
			return err
		}
		if r.first(kernel.Columns{Buf: to}) {
			return errNoRule // it adds
		}
		r.back = append(r.back, kernel.Scatter{Dst: to, Src: from.Buf, Cols: min(r.p.Bufs[to].Width, r.p.Bufs[from.Buf].Width)})
		return nil
	})
	return nil
}

// buffersOf returns the buffers of the first list that an operation of the second reads.
func buffersOf(op kernel.Op) []kernel.Buf {
	switch op := op.(type) {
	case kernel.BackNorm:
		return []kernel.Buf{op.X.Buf}
	case kernel.NormRows:
		return []kernel.Buf{op.Src}
	case kernel.BackW:
		return []kernel.Buf{op.Act}
	case kernel.BackV:
		return []kernel.Buf{op.X.Buf}
	case kernel.BackLow:
		return []kernel.Buf{op.Act}
	case kernel.BackGate:
		return []kernel.Buf{op.G.Buf, op.U.Buf}
	case kernel.BackRoute:
		return []kernel.Buf{op.Src, op.Dst}
	case kernel.BackCombine:
		return []kernel.Buf{op.X, op.Route}
	case kernel.BackPairs:
		return []kernel.Buf{op.X, op.Route}
	case kernel.BackXIELU:
		return []kernel.Buf{op.X}
	case kernel.BackStoreKV:
		return []kernel.Buf{op.Was}
	case kernel.BackAttend:
		return []kernel.Buf{op.QKV, op.Dst}
	case inGo:
		return op.reads
	}
	return nil
}
