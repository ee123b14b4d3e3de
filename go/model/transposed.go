package model

import (
	"fmt"
	"runtime"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// Transposed implements nn.Weights.
func (w *weights) Transposed(name string, in, of, from, n, heads int) (kernel.Matrix, error) {
	key := fmt.Sprintf("%s from row %d of each head, transposed", name, from)
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	t, err := w.tensor(name, []uint64{uint64(in), uint64(of * heads)})
	if err != nil {
		return kernel.Matrix{}, err
	}
	if err := typeOf(t).Check(in); err != nil {
		return kernel.Matrix{}, unsupported(t, err)
	}
	if err := wholeGroups(t, of, from, n); err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{remade: transpose}
	for h := range heads {
		m.parts = append(m.parts, rowsOf(t, in, h*of+from, n))
	}
	m.Type, m.In, m.Out, m.N = kernel.F32, n, in, heads
	w.keep(key, m)
	return m.asked(), nil
}

// transpose writes the transpose of a tensor, as floats, to the beginning of buf and returns it. It uses all
// CPUs.
func transpose(buf []byte, t *gguf.Tensor) ([]byte, error) {
	in, n := int(t.Dims[0]), int(t.Dims[1])
	buf = buf[:in*n*4]
	bands := (n + band - 1) / band
	workers := min(runtime.GOMAXPROCS(0), bands)
	return buf, panics.Each(workers, func(w int) error {
		for b := bands * w / workers; b < bands*(w+1)/workers; b++ {
			if err := transposeRows(mem.Float32s(buf), t, b*band, min(band, n-b*band)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Repeated implements nn.Weights.
func (w *weights) Repeated(name string, in, of, from, n, times int) (kernel.Matrix, error) {
	key := fmt.Sprintf("%s, %d rows from %d %d times", name, n, from, times)
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	t, err := w.tensor(name, []uint64{uint64(in), uint64(of)})
	if err != nil {
		return kernel.Matrix{}, err
	}
	if err := typeOf(t).Check(in); err != nil {
		return kernel.Matrix{}, unsupported(t, err)
	}
	if err := wholeGroups(t, of, from, n); err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{remade: func(buf []byte, t *gguf.Tensor) ([]byte, error) {
		buf = buf[:kernel.Pad(n)*in*4]
		clear(buf)
		y, row := mem.Float32s(buf), len(t.Data)/n
		for r := range n {
			if err := kernel.Dequantize(typeOf(t), y[r*in:(r+1)*in], t.Data[r*row:(r+1)*row]); err != nil {
				return nil, err
			}
		}
		return buf, nil
	}}
	for range times {
		m.parts = append(m.parts, rowsOf(t, in, from, n))
	}
	m.Type, m.In, m.Out, m.N = kernel.F32, in, kernel.Pad(n), times
	w.keep(key, m)
	return m.asked(), nil
}

// Summed implements nn.Weights.
func (w *weights) Summed(name, key string, in, of int, by [][]float64, times int) (kernel.Matrix, error) {
	key = name + ", sums " + key
	if m, ok := w.byName[key]; ok {
		return m.Matrix, nil
	}
	t, err := w.tensor(name, []uint64{uint64(in), uint64(of)})
	if err != nil {
		return kernel.Matrix{}, err
	}
	if err := typeOf(t).Check(in); err != nil {
		return kernel.Matrix{}, unsupported(t, err)
	}
	if err := wholeGroups(t, of); err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{remade: func(buf []byte, t *gguf.Tensor) ([]byte, error) { return sumsOf(buf, t, by) }}
	for range times {
		m.parts = append(m.parts, rowsOf(t, in, 0, of))
	}
	m.Type, m.In, m.Out, m.N = kernel.F32, in, len(by), times
	w.keep(key, m)
	return m.Matrix, nil
}

// sumsOf writes sums of a tensor's rows, times numbers, as floats, to the beginning of buf and returns it.
func sumsOf(buf []byte, t *gguf.Tensor, by [][]float64) ([]byte, error) {
	in, of := int(t.Dims[0]), int(t.Dims[1])
	x := make([]float32, in*of) // by columns
	if err := transposeRows(x, t, 0, of); err != nil {
		return nil, err
	}
	buf = buf[:len(by)*in*4]
	y := mem.Float32s(buf)
	for r, shares := range by {
		for c := range in {
			sum := 0.0
			for i, v := range x[c*of:][:of] {
				sum += float64(shares[i] * float64(v))
			}
			y[r*in+c] = float32(sum)
		}
	}
	return buf, nil
}

// Against implements nn.Weights.
func (w *weights) Against(name string, in, of, heads int, rows [][]float32) (kernel.Matrix, error) {
	key := fmt.Sprintf("%s against %d rows", name, len(rows))
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	t, err := w.tensor(name, []uint64{uint64(in), uint64(of * heads)})
	if err != nil {
		return kernel.Matrix{}, err
	}
	if err := typeOf(t).Check(in); err != nil {
		return kernel.Matrix{}, unsupported(t, err)
	}
	if err := wholeGroups(t, of, 0, of); err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{remade: func(buf []byte, t *gguf.Tensor) ([]byte, error) { return productsWith(buf, t, rows) }}
	for h := range heads {
		m.parts = append(m.parts, rowsOf(t, in, h*of, of))
	}
	m.Type, m.In, m.Out, m.N = kernel.F32, of, len(rows), heads
	w.keep(key, m)
	return m.asked(), nil
}

// productsWith writes the products of a tensor's rows with others, as floats, to the beginning of buf and returns it: a row of each
// of the others.
func productsWith(buf []byte, t *gguf.Tensor, rows [][]float32) ([]byte, error) {
	in, of := int(t.Dims[0]), int(t.Dims[1])
	buf = buf[:len(rows)*of*4]
	y, x := mem.Float32s(buf), make([]float32, in*of)
	if err := transposeRows(x, t, 0, of); err != nil {
		return nil, err
	}
	sums := make([]float64, of)
	for r, row := range rows {
		clear(sums)
		for i, v := range row {
			if v == 0 { // of most
				continue
			}
			for c := range sums {
				sums[c] += float64(float64(v) * float64(x[i*of+c]))
			}
		}
		for c, sum := range sums {
			y[r*of+c] = float32(sum)
		}
	}
	return buf, nil
}

// Regrouped implements nn.Weights.
func (w *weights) Regrouped(name string, in, out, n int) (kernel.Matrix, error) {
	key := fmt.Sprintf("%s in %d groups of columns", name, n)
	if m, ok := w.byName[key]; ok {
		return m.asked(), nil
	}
	t, err := w.flat(name, in, out)
	if err != nil {
		return kernel.Matrix{}, err
	}
	m := &matrix{parts: []*gguf.Tensor{t}, remade: func(buf []byte, t *gguf.Tensor) ([]byte, error) { return regroup(buf, t, n) }}
	m.Type, m.In, m.Out, m.N = kernel.F32, in, out, 1
	w.keep(key, m)
	return m.asked(), nil
}

// regroup writes a tensor, as floats, to the beginning of buf and returns it: column i*n + g of the file becomes column i of
// group g.
func regroup(buf []byte, t *gguf.Tensor, n int) ([]byte, error) {
	in, out := int(t.Dims[0]), int(t.Dims[1])
	buf = buf[:in*out*4]
	y, row, x := mem.Float32s(buf), len(t.Data)/out, make([]float32, in)
	for r := range out {
		if err := kernel.Dequantize(typeOf(t), x, t.Data[r*row:(r+1)*row]); err != nil {
			return nil, err
		}
		for c, v := range x {
			y[r*in+c%n*(in/n)+c/n] = v
		}
	}
	return buf, nil
}

// band is the number of rows transposed together: a cache line of each column.
const band = 16

// transposeRows writes rows from .. from + n of a tensor as columns of y.
func transposeRows(y []float32, t *gguf.Tensor, from, n int) error {
	in, of := int(t.Dims[0]), int(t.Dims[1])
	row, x := len(t.Data)/of, make([]float32, n*in)
	rows := t.Data[from*row : (from+n)*row]
	if together(t) > 1 {
		plain := make([]byte, len(rows))
		if err := kernel.RowsApart(typeOf(t), plain, rows, in); err != nil {
			return err
		}
		rows = plain
	}
	for r := range n {
		if err := kernel.Dequantize(typeOf(t), x[r*in:(r+1)*in], rows[r*row:(r+1)*row]); err != nil {
			return err
		}
	}
	for c := range in {
		for r := range n {
			y[c*of+from+r] = x[r*in+c]
		}
	}
	return nil
}
