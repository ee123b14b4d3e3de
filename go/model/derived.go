package model

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// squares is the mean squares of a matrix's rows. See arch.Weights.Squares.
type squares struct {
	norm *vector // of the inputs; may be nil
	rows []float64
}

// Squares implements arch.Weights.
func (w *weights) Squares(name, norm string) ([]float64, error) {
	m, ok := w.byName[name]
	if !ok || m.N != 1 {
		return nil, fmt.Errorf("tensor %q is not one matrix for products", name)
	}
	if m.squares == nil {
		m.squares = &squares{}
		if norm != "" {
			if _, err := w.Vector(norm, m.In); err != nil {
				return nil, err
			}
			m.squares.norm = w.byVec[norm]
		}
	}
	return m.squares.rows, nil
}

// A mean square is that of at most runs runs of runColumns columns, far from each other:
// it decides by powers of two, and loading takes no longer for it.
const (
	runs       = 2
	runColumns = 256
)

// read takes the rows of x from number first on, which are whole.
func (s *squares) read(x *matrix, first int, rows []byte) {
	if s.rows == nil {
		s.rows = make([]float64, x.Out)
	}
	all := (x.In + runColumns - 1) / runColumns
	var w [runColumns]float32
	rowBytes := kernel.RowBytes(x.Type, x.In)
	for r := first; len(rows) > 0; r, rows = r+1, rows[rowBytes:] {
		sum, n := 0.0, 0
		for i := range min(runs, all) {
			col := i * all / min(runs, all) * runColumns
			run := w[:min(runColumns, x.In-col)]
			from, bytes := kernel.RowBytes(x.Type, col), kernel.RowBytes(x.Type, len(run))
			if err := kernel.Dequantize(x.Type, run, rows[from:from+bytes]); err != nil {
				panic(err) // packing has taken the row
			}
			sum += sumSquares(run, s.norm, col)
			n += len(run)
		}
		s.rows[r] = sum * float64(x.In) / float64(n)
	}
}

// sumSquares is the sum of squares of run, whose first column is col, times the norm.
// Products are converted before they are added, so that no compiler fuses them.
func sumSquares(run []float32, norm *vector, col int) float64 {
	var sum [4]float64 // independent, so that they overlap
	for i, w := range run {
		x := float64(w)
		if norm != nil {
			x *= float64(norm.v[col+i])
		}
		sum[i%4] += float64(x * x)
	}
	return sum[0] + sum[1] + sum[2] + sum[3]
}

// dropSquares releases what has served.
func (w *weights) dropSquares() {
	for _, m := range w.mats {
		m.squares = nil
	}
}

// Floats implements arch.Weights.
func (w *weights) Floats(name string, n int) []float32 {
	v, ok := w.byVec[name]
	if !ok {
		v = &vector{n: n}
		w.vecs = append(w.vecs, v)
		w.byVec[name] = v
	}
	return v.v
}

// Computed returns what the architecture computed from the weights, in the order in which
// it asked for memory. It is part of what determines keys and values.
func (m *Model) Computed() [][]float32 {
	var all [][]float32
	for _, v := range m.weights.vecs {
		if v.t == nil {
			all = append(all, v.v)
		}
	}
	return all
}
