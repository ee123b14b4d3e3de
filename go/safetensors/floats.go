package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Floats reads elements from number `from` on into dst, as float32.
func (t *Tensor) Floats(dst []float32, from uint64) error {
	each := sizes[t.DType]
	decode := decoders[t.DType]
	if decode == nil {
		return fmt.Errorf("%s: tensor %s is %s, want floats", t.file, quote(t.Name), t.DType)
	}
	buf := make([]byte, min(uint64(len(dst))*each, 1<<20))
	for len(dst) > 0 {
		n := min(len(dst), len(buf)/int(each))
		b := buf[:n*int(each)]
		if _, err := t.ReadAt(b, int64(from*each)); err != nil {
			return err
		}
		decode(dst[:n], b)
		dst, from = dst[n:], from+uint64(n)
	}
	return nil
}

// decoders turn bytes into float32.
var decoders = map[DType]func(dst []float32, b []byte){
	F64: func(dst []float32, b []byte) {
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
	},
	F32: func(dst []float32, b []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	},
	F16: func(dst []float32, b []byte) {
		for i := range dst {
			dst[i] = Half(binary.LittleEndian.Uint16(b[2*i:]))
		}
	},
	BF16: func(dst []float32, b []byte) {
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	},
	F8E4M3: byTable(func(b byte) float32 {
		if b&0x7f == 0x7f {
			return float32(math.NaN())
		}
		return small(b, 4, 3)
	}),
	F8E5M2: byTable(func(b byte) float32 { return Half(uint16(b) << 8) }),
	F8E8M0: byTable(func(b byte) float32 {
		if b == 0xff {
			return float32(math.NaN())
		}
		return float32(math.Ldexp(1, int(b)-127))
	}),
	I64: func(dst []float32, b []byte) {
		for i := range dst {
			dst[i] = float32(int64(binary.LittleEndian.Uint64(b[8*i:])))
		}
	},
	I32: func(dst []float32, b []byte) {
		for i := range dst {
			dst[i] = float32(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
	},
}

// byTable returns a decoder of types of one byte.
func byTable(f func(byte) float32) func(dst []float32, b []byte) {
	var table [256]float32
	for i := range table {
		table[i] = f(byte(i))
	}
	return func(dst []float32, b []byte) {
		for i := range dst {
			dst[i] = table[b[i]]
		}
	}
}

// small returns a float of a sign, e bits of exponent and m of mantissa, without infinities.
func small(b byte, e, m int) float32 {
	mantissa, exponent := int(b)&(1<<m-1), int(b)>>m&(1<<e-1)
	bias := 1<<(e-1) - 1
	if exponent == 0 {
		exponent = 1
	} else {
		mantissa |= 1 << m
	}
	v := math.Ldexp(float64(mantissa), exponent-bias-m)
	if b&0x80 != 0 {
		v = -v
	}
	return float32(v)
}

// Half returns a float16 as a float32.
func Half(h uint16) float32 {
	sign, exponent, mantissa := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&1023)
	switch {
	case exponent == 31:
		return math.Float32frombits(sign | 0xff<<23 | mantissa<<13)
	case exponent != 0:
		return math.Float32frombits(sign | (exponent+112)<<23 | mantissa<<13)
	}
	v := float32(mantissa) / (1 << 24)
	if sign != 0 {
		v = -v
	}
	return v
}
