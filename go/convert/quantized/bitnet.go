package quantized

import (
	"fmt"

	"github.com/quern-llm/quern/go/safetensors"
)

// bitnet reads matrices of -1, 0 and 1, of which a byte has four rows: those of the four quarters of the matrix, beginning
// with the lowest bits. They are multiplied by the scale in transformers' class AutoBitLinear, and divided by it in BitLinear.
// Matrices that are quantized when they are used have no scale.
func (r *reader) bitnet() error {
	divided := false
	switch class := r.config.Text("linear_class"); class {
	case "autobitlinear":
	case "", "bitlinear":
		divided = true
	default:
		r.config.Fail("linear_class is %.40s, want bitlinear or autobitlinear", class)
	}
	return r.each(".weight_scale", func(base string) error {
		q, err := r.matrix(base, ".weight", bytes)
		if err != nil {
			return err
		}
		scale, err := r.want(base, ".weight_scale", floats)
		if err != nil {
			return err
		}
		if scale.Elems() != 1 {
			return fmt.Errorf("tensor %q has the shape %v, want one number", scale.Name, scale.Shape)
		}
		var s [1]float32
		if err := scale.Floats(s[:], 0); err != nil {
			return err
		}
		if divided {
			s[0] = 1 / s[0]
		}
		cols := q.Shape[1]
		m := &matrix{rows: 4 * q.Shape[0], cols: cols, groups: 1, width: cols, most: 2, zeros: always(1),
			integers: quarters(q),
			scales: func(dst []float32, _, _ uint64) error {
				for i := range dst {
					dst[i] = s[0]
				}
				return nil
			}}
		r.views[base+".weight"], err = m.view(r.tiles)
		return err
	})
}

// quarters reads rows of two bits; row i is in row i mod n of the n rows of t.
func quarters(t *safetensors.Tensor) func(dst []uint8, first, n uint64) error {
	rows, cols := t.Shape[0], t.Shape[1]
	return func(dst []uint8, first, n uint64) error {
		for row := first; row < first+n; row++ {
			line := dst[(row-first)*cols:][:cols]
			if _, err := t.ReadAt(line, int64(row%rows*cols)); err != nil {
				return err
			}
			for i, x := range line {
				if line[i] = x >> (2 * (row / rows)) & 3; line[i] == 3 {
					return fmt.Errorf("tensor %q has the integer 3 in row %d, want 0 to 2", t.Name, row)
				}
			}
		}
		return nil
	}
}
