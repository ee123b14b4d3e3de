package synth

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// dequantize is the formats' definition, written out: the weights of p, whole
// blocks of type t.
func dequantize(t *testing.T, typ gguf.Type, p []byte) []float64 {
	t.Helper()
	u16 := func(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
	f16 := func(b []byte) float64 {
		h := u16(b)
		m, e := float64(h&1023), int(h>>10&31)
		switch {
		case e == 31:
			t.Fatalf("%s: a scale is not finite", typ)
		case e == 0:
			e = 1
		default:
			m += 1024
		}
		return math.Copysign(math.Ldexp(m, e-25), -float64(h>>15)+0.5)
	}
	bit := func(b []byte, i int) int { return int(b[i/8] >> (i % 8) & 1) }
	// scaleMin unpacks the 6-bit scale and minimum of Q4_K and Q5_K.
	scaleMin := func(s []byte, j int) (float64, float64) {
		if j < 4 {
			return float64(s[j] & 63), float64(s[j+4] & 63)
		}
		return float64(s[j+4]&15 | s[j-4]>>6<<4), float64(s[j+4]>>4 | s[j]>>6<<4)
	}
	n, size := typ.BlockElems(), typ.BlockBytes()
	var out []float64
	for ; len(p) >= size; p = p[size:] {
		b := p[:size]
		for i := range n {
			nibble := func(qs []byte) int { // 32 elements in 16 bytes: low halves first
				return int(qs[i%16] >> (i / 16 * 4) & 15)
			}
			nibble64 := func(qs []byte) int { // 64 elements in 32 bytes, four times
				return int(qs[i/64*32+i%32] >> (i / 32 % 2 * 4) & 15)
			}
			var w float64
			switch typ {
			case gguf.F32:
				w = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
			case gguf.F16:
				w = f16(b)
			case gguf.BF16:
				w = float64(math.Float32frombits(uint32(u16(b)) << 16))
			case gguf.Q4_0:
				w = f16(b) * float64(nibble(b[2:])-8)
			case gguf.Q4_1:
				w = f16(b)*float64(nibble(b[4:])) + f16(b[2:])
			case gguf.Q5_0:
				w = f16(b) * float64(nibble(b[6:])+bit(b[2:], i)*16-16)
			case gguf.Q5_1:
				w = f16(b)*float64(nibble(b[8:])+bit(b[4:], i)*16) + f16(b[2:])
			case gguf.Q8_0:
				w = f16(b) * float64(int8(b[2+i]))
			case gguf.Q2_K:
				s := b[i/16]
				q := b[16+i/128*32+i%32] >> (i / 32 % 4 * 2) & 3
				w = f16(b[80:])*float64(s&15)*float64(q) - f16(b[82:])*float64(s>>4)
			case gguf.Q3_K:
				q := int(b[32+i/128*32+i%32]>>(i/32%4*2)&3) - 4*(1-int(b[i%32]>>(i/32)&1))
				j := i / 16
				s := int(b[96+j%8]>>(j/8*4)&15) | int(b[104+j%4]>>(j/4*2)&3)<<4
				w = f16(b[108:]) * float64(s-32) * float64(q)
			case gguf.Q4_K:
				s, m := scaleMin(b[4:], i/32)
				w = f16(b)*s*float64(nibble64(b[16:])) - f16(b[2:])*m
			case gguf.Q5_K:
				s, m := scaleMin(b[4:], i/32)
				q := nibble64(b[48:]) + int(b[16+i%32]>>(i/32)&1)*16
				w = f16(b)*s*float64(q) - f16(b[2:])*m
			case gguf.Q6_K:
				low := b[i/128*64+i%64] >> (i / 64 % 2 * 4) & 15
				high := b[128+i/128*32+i%32] >> (i / 32 % 4 * 2) & 3
				w = f16(b[208:]) * float64(int8(b[192+i/16])) * float64(int(low|high<<4)-32)
			case gguf.IQ4_NL:
				w = f16(b) * iq4Values[nibble(b[2:])]
			case gguf.MXFP4:
				w = math.Ldexp(mxfp4Values[nibble(b[1:])], int(b[0])-128)
			case gguf.IQ4_XS:
				j := i / 32
				s := int(b[4+j/2]>>(j%2*4)&15) | int(u16(b[2:])>>(2*j)&3)<<4
				w = f16(b) * float64(s-32) * iq4Values[int(b[8+j*16+i%16]>>(i%32/16*4)&15)]
			case gguf.NVFP4:
				w = ue4m3(int(b[i/16])) / 2 * mxfp4Values[b[4+i/16*8+i%8]>>(i/8%2*4)&15]
			case gguf.Q1_0:
				w = f16(b) * float64(2*bit(b[2:], i)-1)
			case gguf.Q2_0:
				w = f16(b) * float64(int(b[2+i/4]>>(i%4*2)&3)-1)
			default:
				t.Fatalf("no definition of %s", typ)
			}
			out = append(out, w)
		}
	}
	return out
}

// Weights of every type have the mean and the deviation that the package
// promises, and rows differ.
func TestFill(t *testing.T) {
	for _, typ := range []gguf.Type{
		gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q2_K,
		gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ4_NL, gguf.IQ4_XS, gguf.MXFP4, gguf.NVFP4, gguf.Q1_0, gguf.Q2_0,
	} {
		const nIn, nOut = 14336, 64
		tn := tensor{name: "t", typ: typ, dims: []uint64{nIn, nOut}}
		var buf bytes.Buffer
		if err := (Model{}).fill(context.Background(), &buf, tn); err != nil {
			t.Fatal(err)
		}
		if size, _ := typ.Size(tn.dims); uint64(buf.Len()) != size {
			t.Fatalf("%s: %d bytes, want %d", typ, buf.Len(), size)
		}
		row := buf.Len() / nOut
		if bytes.Equal(buf.Bytes()[:row], buf.Bytes()[row:2*row]) {
			t.Errorf("%s: the first two rows are the same", typ)
		}
		var sum, square float64
		w := dequantize(t, typ, buf.Bytes())
		for _, x := range w {
			sum += x
			square += x * x
		}
		n := float64(len(w))
		sigma := 1 / math.Sqrt(nIn)
		// 28 000 to 900 000 independent scales: 2 % is more than 3 deviations.
		if got := math.Sqrt(square / n); math.Abs(got/sigma-1) > 0.02 {
			t.Errorf("%s: deviation %g, want %g", typ, got, sigma)
		}
		if mean := sum / n; math.Abs(mean) > 0.02*sigma {
			t.Errorf("%s: mean %g, want 0 within %g", typ, mean, 0.02*sigma)
		}
	}
}

func TestFloat16(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want uint16
	}{
		{0, 0}, {1, 0x3c00}, {-2, 0xc000}, {65504, 0x7bff}, {0.1, 0x2e66}, {1. / 3, 0x3555},
		{math.Ldexp(1, -14), 0x0400},                      // the smallest normal
		{math.Ldexp(1, -24), 0x0001},                      // the smallest of all
		{math.Ldexp(1023, -24), 0x03ff},                   // the largest subnormal
		{math.Ldexp(1023.7, -24), 0x0400},                 // rounds up to normal
		{math.Ldexp(2047.9, -10), 0x4000},                 // rounds up to the next power
		{1 + math.Ldexp(1, -11), 0x3c00},                  // a tie, to even
		{1 + math.Ldexp(3, -11), 0x3c02},                  // a tie, to even
		{math.Nextafter(1+math.Ldexp(1, -11), 2), 0x3c01}, // just above the tie
		{-math.Ldexp(1, -26), 0x8000},                     // rounds to zero
	} {
		if got := float16(tt.v); got != tt.want {
			t.Errorf("float16(%g) = %#04x, want %#04x", tt.v, got, tt.want)
		}
	}
}

func TestBfloat16(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want uint16
	}{
		{1, 0x3f80}, {-0.5, 0xbf00}, {1 + 1./256, 0x3f80}, {1 + 3./256, 0x3f82}, {1.005, 0x3f81},
	} {
		if got := bfloat16(tt.v); got != tt.want {
			t.Errorf("bfloat16(%g) = %#04x, want %#04x", tt.v, got, tt.want)
		}
	}
}
