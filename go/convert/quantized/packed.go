package quantized

import (
	"encoding/binary"

	"github.com/quern-llm/quern/go/safetensors"
)

// Integers of b bits are packed one after the other into words of 32 bits, beginning with the lowest: integer i is in the
// bits from i*b on. If b does not divide 32, some begin in one word and end in the next.

// readWords reads words of a tensor of I32 from number at on.
func readWords(dst []uint32, t *safetensors.Tensor, at uint64) error {
	b := make([]byte, 4*len(dst))
	if _, err := t.ReadAt(b, int64(4*at)); err != nil {
		return err
	}
	for i := range dst {
		dst[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return nil
}

// integers reads a tensor of I32 or I64.
func integers(t *safetensors.Tensor) ([]int64, error) {
	size := uint64(4)
	if t.DType == safetensors.I64 {
		size = 8
	}
	b := make([]byte, t.Elems()*size)
	if _, err := t.ReadAt(b, 0); err != nil {
		return nil, err
	}
	all := make([]int64, t.Elems())
	for i := range all {
		if size == 8 {
			all[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		} else {
			all[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
	}
	return all, nil
}

// unpacked returns integer i of b bits in every step-th of the words.
func unpacked(words []uint32, i, b, step uint64) uint32 {
	word, shift := i*b/32, i*b%32
	v := uint64(words[word*step])
	if shift+b > 32 {
		v |= uint64(words[(word+1)*step]) << 32
	}
	return uint32(v>>shift) & (1<<b - 1)
}

// across reads the rows of a matrix whose integers are packed along its rows.
func across(t *safetensors.Tensor, cols, bits uint64) func(dst []uint8, first, n uint64) error {
	return func(dst []uint8, first, n uint64) error {
		each := t.Shape[1]
		buf := make([]uint32, n*each)
		if err := readWords(buf, t, first*each); err != nil {
			return err
		}
		for r := range n {
			line := buf[r*each:][:each]
			for c := range cols {
				dst[r*cols+c] = uint8(unpacked(line, c, bits, 1))
			}
		}
		return nil
	}
}

// down reads the rows of a matrix whose integers are packed along its columns: cols of them in each, and the first dimension
// of t is that of the words.
func down(t *safetensors.Tensor, cols, bits uint64) func(dst []uint8, first, n uint64) error {
	return func(dst []uint8, first, n uint64) error {
		buf, err := stripe(t, first, n)
		if err != nil {
			return err
		}
		for r := range n {
			for c := range cols {
				dst[r*cols+c] = uint8(unpacked(buf[r:], c, bits, n))
			}
		}
		return nil
	}
}

// stripe reads n columns of words from column first on, row by row.
func stripe(t *safetensors.Tensor, first, n uint64) ([]uint32, error) {
	buf := make([]uint32, t.Shape[0]*n)
	for k := range t.Shape[0] {
		if err := readWords(buf[k*n:][:n], t, k*t.Shape[1]+first); err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// transposed reads floats of a matrix whose second dimension is that of the rows.
func transposed(t *safetensors.Tensor) func(dst []float32, first, n uint64) error {
	return func(dst []float32, first, n uint64) error {
		groups, line := t.Shape[0], make([]float32, n)
		for g := range groups {
			if err := t.Floats(line, g*t.Shape[1]+first); err != nil {
				return err
			}
			for r, x := range line {
				dst[uint64(r)*groups+g] = x
			}
		}
		return nil
	}
}

// byRow reads the first groups floats of each row.
func byRow(t *safetensors.Tensor, groups uint64) func(dst []float32, first, n uint64) error {
	each := t.Elems() / max(t.Shape[0], 1)
	return func(dst []float32, first, n uint64) error {
		if each == groups {
			return t.Floats(dst[:n*groups], first*groups)
		}
		for r := range n {
			if err := t.Floats(dst[r*groups:][:groups], (first+r)*each); err != nil {
				return err
			}
		}
		return nil
	}
}
