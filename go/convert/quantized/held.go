package quantized

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// A holder is a type of GGUF whose blocks hold integers of a range, times a scale in F16. Q4_1 is the exception: it holds
// the integers as they are, and minus the zero times the scale as a second F16.
type holder struct {
	typ       gguf.Type
	low, high int // of an integer less its zero
	put       func(dst []byte, q []int16, zero int16, d uint16)
}

// holders are in the order of their size.
var holders = []holder{
	{gguf.TQ2_0, -1, 1, putTQ2},
	{gguf.Q4_0, -8, 7, putQ4},
	{gguf.Q4_1, -15, 15, putQ41},
	{gguf.Q5_0, -16, 15, putQ5},
	{gguf.Q8_0, -128, 127, putQ8},
}

// nearly is the relative error of a matrix up to which blocks hold it: that of F16.
const nearly = 1.0 / (1 << 11)

// A survey is what is known of a matrix whose scales and zeros were read.
type survey struct {
	least, most int16   // zeros
	error       float64 // of scales as F16, relative to their root mean square
	exact       bool    // scales are F16
	exactMin    bool    // scales times zeros are too
	overflow    bool    // a scale is beyond F16
}

// held returns the blocks that hold the matrix: those that hold it exactly, the smallest first, and then others.
func (m *matrix) held(cache *tiles) ([]lang.Held, error) {
	if m.groupOf != nil {
		return nil, nil // neighbours have different scales
	}
	s, err := m.survey()
	if err != nil || s.overflow || s.error > nearly {
		return nil, err
	}
	var exact, near, rounded []lang.Held
	for _, h := range holders {
		elems := uint64(h.typ.BlockElems())
		whole := m.cols%elems == 0 && (m.groups == 1 || m.width%elems == 0)
		low, high := -int(s.most), m.most-int(s.least)
		if !whole || low < h.low || high > h.high || h.typ == gguf.Q4_1 && m.most > 15 {
			continue
		}
		is := s.exact && (h.typ != gguf.Q4_1 || s.exactMin)
		as := lang.Held{Type: h.typ, Exact: is, Bytes: m.blocks(cache, h)}
		switch {
		case is:
			exact = append(exact, as)
		case h.typ == gguf.Q4_1:
			rounded = append(rounded, as)
		default:
			near = append(near, as)
		}
	}
	return slices.Concat(exact, near, rounded), nil
}

// survey reads all scales and zeros.
func (m *matrix) survey() (survey, error) {
	s := survey{least: math.MaxInt16, most: math.MinInt16, exact: m.factor == 0, exactMin: true}
	squares, errors := 0.0, 0.0
	step := max((1<<18)/m.groups/tileRows, 1) * tileRows
	scales, zeros := make([]float32, min(step, m.rows)*m.groups), make([]int16, min(step, m.rows)*m.groups)
	for first := uint64(0); first < m.rows; first += step {
		n := min(step, m.rows-first)
		scales, zeros = scales[:n*m.groups], zeros[:n*m.groups]
		if err := m.scales(scales, first, n); err != nil {
			return s, err
		}
		if err := m.zeros(zeros, first, n); err != nil {
			return s, err
		}
		for i, z := range zeros {
			d := m.scale(scales[i])
			near := safetensors.Half(halfOf(d))
			if x := float64(near); math.IsInf(x, 0) || math.IsNaN(x) {
				s.overflow = true
				return s, nil
			}
			s.least, s.most = min(s.least, z), max(s.most, z)
			s.exact = s.exact && near == d
			low := -float64(d) * float64(z) // exact
			s.exactMin = s.exactMin && float64(safetensors.Half(halfOf(float32(low)))) == low
			squares += float64(d) * float64(d)
			errors += (float64(near) - float64(d)) * (float64(near) - float64(d))
		}
	}
	if errors > 0 {
		s.error = math.Sqrt(errors / squares)
	}
	return s, nil
}

// scale returns a scale times the factor of all.
func (m *matrix) scale(d float32) float32 {
	if m.factor != 0 {
		return d * m.factor
	}
	return d
}

// blocks returns the reader of blocks.
func (m *matrix) blocks(cache *tiles, h holder) func(dst []byte, at uint64) error {
	elems, size := uint64(h.typ.BlockElems()), h.typ.BlockBytes()
	return func(dst []byte, at uint64) error {
		for ; len(dst) > 0; dst, at = dst[size:], at+elems {
			row, col := at/m.cols, at%m.cols
			t, err := cache.of(m, row)
			if err != nil {
				return err
			}
			g := (row-t.first)*m.groups + m.group(col)
			q := t.integers[(row-t.first)*m.cols+col:][:elems]
			h.put(dst[:size], q, t.zeros[g], halfOf(m.scale(t.scales[g])))
		}
		return nil
	}
}

// putTQ2 writes a block of 256 integers of two bits, whose scale is at its end. A byte has those of four runs of 32.
func putTQ2(dst []byte, q []int16, _ int16, d uint16) {
	for i := range 64 {
		from := q[i/32*128+i%32:]
		dst[i] = byte(from[0]+1) | byte(from[32]+1)<<2 | byte(from[64]+1)<<4 | byte(from[96]+1)<<6
	}
	binary.LittleEndian.PutUint16(dst[64:], d)
}

// putQ4 writes a scale and 32 integers of four bits. A byte has one of the first half and one of the second.
func putQ4(dst []byte, q []int16, _ int16, d uint16) {
	binary.LittleEndian.PutUint16(dst, d)
	for i := range 16 {
		dst[2+i] = byte(q[i]+8) | byte(q[16+i]+8)<<4
	}
}

// putQ41 is putQ4 with a minimum after the scale.
func putQ41(dst []byte, q []int16, zero int16, d uint16) {
	binary.LittleEndian.PutUint16(dst, d)
	binary.LittleEndian.PutUint16(dst[2:], halfOf(-safetensors.Half(d)*float32(zero)))
	for i := range 16 {
		dst[4+i] = byte(q[i]+zero) | byte(q[16+i]+zero)<<4
	}
}

// putQ5 is putQ4 with the fifth bits in a word after the scale.
func putQ5(dst []byte, q []int16, _ int16, d uint16) {
	fifth := uint32(0)
	for i, x := range q {
		fifth |= uint32(x+16) >> 4 & 1 << i
	}
	binary.LittleEndian.PutUint16(dst, d)
	binary.LittleEndian.PutUint32(dst[2:], fifth)
	for i := range 16 {
		dst[6+i] = byte(q[i]+16)&15 | byte(q[16+i]+16)<<4
	}
}

// putQ8 writes a scale and 32 bytes.
func putQ8(dst []byte, q []int16, _ int16, d uint16) {
	binary.LittleEndian.PutUint16(dst, d)
	for i, x := range q {
		dst[2+i] = byte(x)
	}
}

// halfOf returns the float16 that is nearest to x, the even one of two.
func halfOf(x float32) uint16 {
	bits := math.Float32bits(x)
	sign, size := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case size > 0x7f800000:
		return sign | 0x7e00 // NaN
	case size >= 0x477ff000: // 65520, which is nearer to 65536 than to the largest
		return sign | 0x7c00
	case size < 0x38800000: // below 2^-14: multiples of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(size))*(1<<24)))
	}
	size += 0xfff + size>>13&1
	return sign | uint16(size>>13-112<<10)
}
