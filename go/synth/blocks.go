package synth

import (
	"encoding/binary"
	"math"

	"github.com/quern-llm/quern/go/gguf"
)

// A recipe turns random bytes into a block of a type: it gives the offsets and ratios
// of the float16 scales to write. All other bytes may have any value.
type recipe struct {
	fields []field
	rms    float64 // of the block's weights if its first scale is 1
}

// mxfp4Values are the 16 levels of MXFP4. Its scale is not a float16 but the exponent of a power
// of two, 0 for 2^-128.
var mxfp4Values = [16]float64{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// mxfp4Exponents returns the exponents of `choices` scales: two neighbours, in the proportion that
// gives weights the standard deviation sigma.
func mxfp4Exponents(sigma float64) []byte {
	square := 0.0
	for _, v := range mxfp4Values {
		square += v * v / 16
	}
	want := sigma * sigma / square // the mean square of the scales
	low := math.Floor(math.Log2(want) / 2)
	above := (want/math.Exp2(2*low) - 1) / 3 // how many have the larger one
	table := make([]byte, choices)
	for i := range table {
		table[i] = byte(128 + low)
		if float64(i) < above*choices {
			table[i]++
		}
	}
	return table
}

// ue4m3 is the number that the byte b below 128 is as a scale of NVFP4: 4 bits of exponent, 3 of mantissa.
func ue4m3(b int) float64 {
	if b < 8 {
		return math.Ldexp(float64(b), -9)
	}
	return math.Ldexp(float64(8+b%8), b/8-10)
}

// nvfp4Scales returns `choices` times four scales: two neighbours, in the proportion that gives weights the standard
// deviation sigma.
func nvfp4Scales(sigma float64) []byte {
	square := 0.0
	for _, v := range mxfp4Values { // twice the levels
		square += v * v / 4 / 16
	}
	want, low := sigma*sigma/square, 0
	for low < 125 && ue4m3(low+1)*ue4m3(low+1) <= want {
		low++
	}
	least, next := ue4m3(low)*ue4m3(low), ue4m3(low+1)*ue4m3(low+1)
	above := (want - least) / (next - least) // how many have the larger one
	table := make([]byte, 4*choices)
	for i := range table {
		table[i] = byte(low)
		if float64(i) < above*4*choices {
			table[i]++
		}
	}
	return table
}

// A field is a float16 in a block, ratio times the first scale.
type field struct {
	offset int
	ratio  float64
}

// moments are the mean and the mean square of a number.
type moments struct{ mean, square float64 }

// uniform returns the moments of the uniform distribution of integers from lo to hi.
func uniform(lo, hi float64) moments {
	mean, n := (lo+hi)/2, hi-lo+1
	return moments{mean, mean*mean + (n*n-1)/12}
}

// iq4Values are the 16 levels of IQ4_NL and IQ4_XS.
var iq4Values = [16]float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func iq4() moments {
	var m moments
	for _, v := range iq4Values {
		m.mean += v / 16
		m.square += v * v / 16
	}
	return m
}

// scaled makes blocks of d·s·q, where s are scales within the block. The sign
// of d is random, so the mean is 0 although q's is not.
func scaled(offset int, s, q moments) recipe {
	return recipe{[]field{{offset, 1}}, math.Sqrt(s.square * q.square)}
}

// offsetBy makes blocks of d·s·q + m·t, where s and t are scales within the
// block, drawn alike, and the sign of m as stored is given: -1 for the types
// that subtract it. m = -mean(q)·d makes the mean 0.
func offsetBy(at, minAt int, sign float64, s, q moments) recipe {
	// (s·q - mean·t)², with s, t and q independent.
	square := s.square*q.square + q.mean*q.mean*s.square - 2*q.mean*q.mean*s.mean*s.mean
	return recipe{[]field{{at, 1}, {minAt, -sign * q.mean}}, math.Sqrt(square)}
}

// recipes maps types to recipes. The offsets are those of the scales in ggml's blocks.
var recipes = func() map[gguf.Type]recipe {
	one := moments{1, 1}
	u4, u5, u6 := uniform(0, 15), uniform(0, 31), uniform(0, 63)
	signed6 := uniform(-32, 31)
	return map[gguf.Type]recipe{
		gguf.Q4_0:   scaled(0, one, uniform(-8, 7)),
		gguf.Q4_1:   offsetBy(0, 2, 1, one, u4),
		gguf.Q5_0:   scaled(0, one, uniform(-16, 15)),
		gguf.Q5_1:   offsetBy(0, 2, 1, one, u5),
		gguf.Q8_0:   scaled(0, one, uniform(-128, 127)),
		gguf.Q2_K:   offsetBy(80, 82, -1, u4, uniform(0, 3)),
		gguf.Q3_K:   scaled(108, signed6, uniform(-4, 3)),
		gguf.Q4_K:   offsetBy(0, 2, -1, u6, u4),
		gguf.Q5_K:   offsetBy(0, 2, -1, u6, u5),
		gguf.Q6_K:   scaled(208, uniform(-128, 127), signed6),
		gguf.IQ4_NL: scaled(0, one, iq4()),
		gguf.IQ4_XS: scaled(0, signed6, iq4()),
		gguf.Q1_0:   scaled(0, one, moments{0, 1}), // -1 or 1
		gguf.Q2_0:   scaled(0, one, uniform(-1, 2)),
	}
}()

// A maker generates weights of one type and standard deviation.
type maker struct {
	bytes  int     // of a block
	fields []field // of a block; none for plain floats
	table  []byte  // choices entries of width bytes: a float, or the fields in turn
	width  int
}

// choices is the number of different scales, or values of floats: a power of two, so
// that two random bytes select one.
const choices = 1 << 12

// newMaker returns a maker of weights of type t with standard deviation sigma.
func newMaker(t gguf.Type, sigma float64) *maker {
	if t == gguf.MXFP4 {
		return &maker{bytes: t.BlockBytes(), fields: []field{{}}, table: mxfp4Exponents(sigma), width: 1}
	}
	if t == gguf.NVFP4 {
		return &maker{bytes: t.BlockBytes(), fields: []field{{0, 1}, {1, 1}, {2, 1}, {3, 1}}, table: nvfp4Scales(sigma), width: 4}
	}
	r, quantized := recipes[t]
	m := &maker{bytes: t.BlockBytes(), fields: r.fields}
	for i := range choices {
		if !quantized {
			// The quantiles of a normal distribution.
			value := sigma * math.Sqrt2 * math.Erfinv((2*float64(i)+1)/choices-1)
			m.table = appendFloat(m.table, t, value)
			continue
		}
		// From half to one and a half times the mean, of either sign; the
		// mean square of such sizes is 1 + 1/12.
		size := (0.5 + float64(i/2)/(choices/2-1)) / math.Sqrt(1+1./12)
		if i%2 == 1 {
			size = -size
		}
		for _, f := range r.fields {
			m.table = appendFloat(m.table, gguf.F16, size*f.ratio*sigma/r.rms)
		}
	}
	m.width = len(m.table) / choices
	return m
}

// make turns p, whole blocks of random bytes, into weights.
func (m *maker) make(p []byte) {
	entry := func(at []byte) []byte {
		return m.table[int(binary.LittleEndian.Uint16(at)%choices)*m.width:][:m.width]
	}
	for ; len(p) >= m.bytes; p = p[m.bytes:] {
		if m.fields == nil {
			copy(p, entry(p))
			continue
		}
		e := entry(p[m.fields[0].offset:])
		size := m.width / len(m.fields)
		for i, f := range m.fields {
			copy(p[f.offset:f.offset+size], e[size*i:])
		}
	}
}

// appendFloat appends v as the plain float type t.
func appendFloat(p []byte, t gguf.Type, v float64) []byte {
	switch t {
	case gguf.F16:
		return binary.LittleEndian.AppendUint16(p, float16(v))
	case gguf.BF16:
		return binary.LittleEndian.AppendUint16(p, bfloat16(v))
	default:
		return binary.LittleEndian.AppendUint32(p, math.Float32bits(float32(v)))
	}
}

// float16 rounds v to the nearest half-precision number, ties to even. v is
// small enough to have one.
func float16(v float64) uint16 {
	sign := uint16(0)
	if math.Signbit(v) {
		sign, v = 1<<15, -v
	}
	// A step is 2^-24 up to 2^-14, and 2^-10 of the power of two below v from there.
	exp := max(math.Ilogb(v), -14)
	steps := uint16(math.RoundToEven(math.Ldexp(v, 10-exp)))
	// A normal number has the leading 1 in steps; adding it to the exponent
	// below makes it the exponent, also when rounding has carried.
	return sign | uint16(exp+14)<<10 + steps
}

// bfloat16 rounds v to the nearest bfloat16, ties to even. v is finite and far
// from the largest.
func bfloat16(v float64) uint16 {
	b := math.Float32bits(float32(v))
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
