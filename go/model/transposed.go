package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// Transposed implements arch.Weights.
func (w *weights) Transposed(name string, in, of, from, n, heads int) (kernel.Matrix, error) {
	key := fmt.Sprintf("%s from row %d of each head, transposed", name, from)
	if m, ok := w.byName[key]; ok {
		return m.Matrix, nil
	}
	t, err := w.tensor(name, []uint64{uint64(in), uint64(of * heads)})
	if err != nil {
		return kernel.Matrix{}, err
	}
	if err := kernel.Type(t.Type).Check(in); err != nil {
		return kernel.Matrix{}, unsupported(t, err)
	}
	m := &matrix{transposed: true}
	for h := range heads {
		m.parts = append(m.parts, rowsOf(t, in, h*of+from, n))
	}
	m.Type, m.In, m.Out, m.N = kernel.F32, n, in, heads
	w.keep(key, m)
	return m.Matrix, nil
}

// transpose writes the transpose of a tensor, as floats, to the beginning of buf and returns it.
func transpose(buf []byte, t *gguf.Tensor) ([]byte, error) {
	in, n := int(t.Dims[0]), int(t.Dims[1])
	buf = buf[:in*n*4]
	y := mem.Float32s(buf)
	row, x := len(t.Data)/n, make([]float32, in)
	for r := range n {
		if err := kernel.Dequantize(kernel.Type(t.Type), x, t.Data[r*row:(r+1)*row]); err != nil {
			return nil, err
		}
		for c, v := range x {
			y[c*n+r] = v
		}
	}
	return buf, nil
}
