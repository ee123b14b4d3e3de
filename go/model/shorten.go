package model

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/model/projector"
)

// An EncoderType is the type that the matrices of an encoder's layers have in memory.
type EncoderType int

const (
	// EncoderAuto is EncoderQ8 where there is much to compute, else EncoderFile.
	EncoderAuto EncoderType = iota
	// EncoderFile is that of the file.
	EncoderFile
	// EncoderQ8 is Q8_0 where the file has floats.
	EncoderQ8
)

var encoderTypes = []string{"auto", "file", "q8_0"}

func (t EncoderType) String() string { return encoderTypes[t] }

// MarshalText implements encoding.TextMarshaler.
func (t EncoderType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *EncoderType) UnmarshalText(text []byte) error {
	i := slices.Index(encoderTypes, string(text))
	if i < 0 {
		return fmt.Errorf("%q, want auto, file or q8_0", text)
	}
	*t = EncoderType(i)
	return nil
}

// leastShortened is how many bytes of floats the layers of an encoder have at least for EncoderAuto to shorten them. Smaller
// encoders are fast enough, and stay exact.
const leastShortened = 32 << 20

// Shortens reports whether floats of the layers of the encoder for a sense become 8 bits.
func (t EncoderType) Shortens(f *gguf.File, s projector.Sense) bool {
	if t != EncoderAuto {
		return t == EncoderQ8
	}
	n := uint64(0)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if !strings.HasPrefix(t.Name, s.Tensors()) || !ofLayer(t.Name) || !isFloat(t) {
			continue
		}
		if size, err := t.Type.Size(t.Dims); err == nil { // else it is refused when it is read
			n += size
		}
	}
	return n >= leastShortened
}

// ofLayer reports whether a tensor is one of a layer.
func ofLayer(name string) bool { return strings.Contains(name, "blk.") }

// ofRouter reports whether a tensor scores experts, of which rounding would choose others.
func ofRouter(name string) bool { return strings.HasSuffix(name, "ffn_gate_inp.weight") }

// An even is what columns of matrices are multiplied by, for the weights of the norm before them.
type even struct {
	by, norm *vector
	mats     []*matrix
}

// Even implements nn.Weights.
func (w *weights) Even(norm string, mats ...kernel.Matrix) ([]float32, bool) {
	name := norm + " evened"
	by := w.byVec[name] // nil: it is asked for the first time
	for _, m := range mats {
		if own := w.byName[m.Name]; own == nil || !own.shortened || own.columns != by { // or another norm is before it too
			return nil, false
		}
	}
	if by != nil {
		return by.v, true
	}
	v := w.byVec[norm]
	w.Floats(name, v.n)
	e := even{by: w.byVec[name], norm: v}
	for _, m := range mats {
		own := w.byName[m.Name]
		own.columns = e.by
		e.mats = append(e.mats, own)
	}
	w.evens = append(w.evens, e)
	return nil, true
}

// shorten makes a matrix one of 8 bits, if it is one of a layer and has floats. Its columns are then whole blocks, of which
// the last ones of a row are zeros where the file has fewer.
func (w *weights) shorten(key string, m *matrix) {
	if !w.short || m.rows || m.remade != nil || m.N != 1 || len(m.parts) != 1 || !ofLayer(key) || ofRouter(key) || !isFloat(m.parts[0]) {
		return
	}
	in := m.In
	m.shortened = true
	m.Type, m.In = kernel.Q8_0, (in+short-1)/short*short
	m.remade = func(buf []byte, t *gguf.Tensor) ([]byte, error) { return m.short(buf, t, in) }
}

// short is a block of Q8_0.
const short = 32

// short writes the `in` columns of a tensor, multiplied by m.columns, as the matrix's to the beginning of buf and returns it.
// It uses all CPUs.
func (m *matrix) short(buf []byte, t *gguf.Tensor, in int) ([]byte, error) {
	from, to := kernel.RowBytes(typeOf(t), in), kernel.RowBytes(m.Type, m.In)
	buf = buf[:m.Out*to]
	var columns []float32
	if m.columns != nil {
		columns = m.columns.v[:in]
	}
	workers := min(runtime.GOMAXPROCS(0), m.Out)
	return buf, panics.Each(workers, func(i int) error {
		row := make([]float32, m.In)
		for r := m.Out * i / workers; r < m.Out*(i+1)/workers; r++ {
			if err := kernel.Dequantize(typeOf(t), row[:in], t.Data[r*from:(r+1)*from]); err != nil {
				return err
			}
			if err := finite(row); err != nil {
				return err
			}
			for c, by := range columns {
				row[c] *= by
			}
			if err := kernel.Encode(kernel.CPU(), m.Type, buf[r*to:(r+1)*to], row, m.In, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// fill computes the factors.
func (e *even) fill() error {
	n := e.by.n
	columns := make([]float64, n)
	for _, m := range e.mats {
		if err := addColumns(columns, m.parts[0], m.Out); err != nil {
			return err
		}
	}
	nn.EvenFactors(e.by.v[:n], e.norm.v[:n], columns)
	return nil
}

// addColumns adds the squares of the numbers in each column of a tensor of so many rows, in the order of the rows. It uses all
// CPUs.
func addColumns(sums []float64, t *gguf.Tensor, rows int) error {
	in := len(sums)
	size := kernel.RowBytes(typeOf(t), in)
	workers := min(runtime.GOMAXPROCS(0), in)
	return panics.Each(workers, func(i int) error {
		from, to := in*i/workers, in*(i+1)/workers
		part := make([]float32, to-from)
		for r := range rows {
			row := t.Data[r*size:]
			row = row[kernel.RowBytes(typeOf(t), from):kernel.RowBytes(typeOf(t), to)]
			if err := kernel.Dequantize(typeOf(t), part, row); err != nil {
				return err
			}
			for c, x := range part {
				sums[from+c] += float64(x) * float64(x) // exact: fused or not is the same
			}
		}
		return nil
	})
}
