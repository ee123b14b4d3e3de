package model

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
)

// squares holds the mean squares of a matrix's rows. See nn.Weights.Squares.
type squares struct {
	norm *vector // of the inputs; may be nil
	rows []float64
}

// Squares implements nn.Weights.
func (w *weights) Squares(name, norm string) ([]float64, error) {
	m, ok := w.byName[name]
	if !ok || m.asked().N != 1 {
		return nil, fmt.Errorf("tensor %q is not one matrix for products", name)
	}
	if slices.Contains(w.elsewhere, m) { // nothing that this rank computes depends on it
		if !w.bound {
			return nil, nil
		}
		return make([]float64, m.Out), nil
	}
	if m.squares == nil && m.panels != nil {
		rows, err := w.packed.squares(name, m.Out)
		if err != nil {
			return nil, err
		}
		m.squares, m.squared = &squares{rows: rows}, true
	}
	if m.panels != nil && !w.bound {
		return nil, nil // as for rows, which were not read yet
	}
	if m.squares == nil {
		m.squares, m.squared = &squares{norm: w.byVec[norm]}, true
	}
	return m.squares.rows, nil
}

// sampleCols is the maximum number of columns, in the middle of a row, whose mean square is computed. The results
// are rounded to powers of two, and reading all columns would take longer than packing.
const sampleCols = 256

// read processes whole rows of x from number `first` on, on all CPUs. Rows that other ranks have stay 0.
func (s *squares) read(x *matrix, first int, rows []byte) error {
	if s.rows == nil {
		s.rows = make([]float64, x.asked().Out)
	}
	from := (x.In - 1) / sampleCols / 2 * sampleCols
	to := min(from+sampleCols, x.In)
	var norm []float32
	if s.norm != nil {
		norm = s.norm.v[from:to]
	}
	row, at, n := kernel.RowBytes(x.Type, x.In), kernel.RowBytes(x.Type, from), kernel.RowBytes(x.Type, to-from)
	first = x.rowInWhole(first)
	dst := s.rows[first : first+len(rows)/row]
	part := len(dst)/runtime.GOMAXPROCS(0) + 1
	return panics.Each((len(dst)+part-1)/part, func(i int) error {
		w := make([]float32, to-from)
		for r := i * part; r < min((i+1)*part, len(dst)); r++ {
			if err := kernel.Dequantize(x.Type, w, rows[r*row+at:r*row+at+n]); err != nil {
				return err
			}
			dst[r] = sumSquares(w, norm) / float64(len(w)) * float64(x.In)
		}
		return nil
	})
}

// sumSquares returns the sum of squares of w, times norm if there is one. Products are converted before they
// are added, so that no compiler fuses them.
func sumSquares(w, norm []float32) float64 {
	sum := 0.0
	for i, x := range w {
		y := float64(x)
		if norm != nil {
			y *= float64(norm[i])
		}
		sum += float64(y * y)
	}
	return sum
}

// dropSquares releases the mean squares after use.
func (w *weights) dropSquares() {
	for _, m := range w.mats {
		m.squares = nil
	}
}

// Floats implements nn.Weights.
func (w *weights) Floats(name string, n int) []float32 {
	v, ok := w.byVec[name]
	if !ok {
		v = &vector{n: n}
		w.made = append(w.made, v)
		w.byVec[name] = v
	}
	return v.v
}

// Computed returns the values that the architecture computed from the weights, in the order of its requests.
// Keys and values depend on them. A rank has those of its own part.
func (m *Model) Computed() [][]float32 {
	var all [][]float32
	for _, v := range m.weights.made {
		all = append(all, v.v)
	}
	return all
}

// ComputedHash returns a hash of them.
func (m *Model) ComputedHash() []byte {
	h := sha256.New()
	for _, v := range m.Computed() {
		binary.Write(h, binary.LittleEndian, v) // a hash takes all
	}
	return h.Sum(nil)
}
