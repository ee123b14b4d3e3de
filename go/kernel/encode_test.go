package kernel

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// Every instruction set encodes the same bytes, of a number of blocks that fills no vector, with runs of zeros, tiny weights
// and equal ones; and what is decoded again is near.
func TestEncodeSets(t *testing.T) {
	const n, rows = 768, 3
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n*rows)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.1
		switch i / 32 % 9 {
		case 3:
			x[i] = 0
		case 5:
			x[i] = 0.25
		case 7:
			x[i] *= 1e-12
		}
	}
	importance := make([]float32, n)
	for i := range importance {
		importance[i] = float32(r.ExpFloat64())
	}
	sets := []ISA{Scalar, AVX2, AVX2 | AVX512}
	for _, typ := range types {
		if !CanEncode(typ, n) {
			continue
		}
		for _, w := range [][]float32{nil, importance} {
			if w == nil && NeedsImportance(typ) {
				continue
			}
			var first []byte
			for _, isa := range sets {
				b := make([]byte, rows*RowBytes(typ, n))
				if err := Encode(isa, typ, b, x, n, w); err != nil {
					t.Fatalf("%v: %v", typ, err)
				}
				if first == nil {
					first = b
				} else if !bytes.Equal(b, first) {
					t.Errorf("%v, importance %v: set %#x encodes other bytes than scalar", typ, w != nil, isa)
				}
			}
			y := make([]float32, n)
			var off, all float64
			for row := range rows {
				if err := Dequantize(typ, y, first[row*len(first)/rows:][:len(first)/rows]); err != nil {
					t.Fatal(err)
				}
				for i, v := range y {
					d := float64(v - x[row*n+i])
					off, all = off+d*d, all+float64(x[row*n+i])*float64(x[row*n+i])
				}
			}
			// One bit with a scale leaves 36 % and more of a normal distribution's variance, ternary ones with the largest size as
			// scale nearly all.
			if ratio := off / all; ratio > 0.5 && typ != TQ1_0 && typ != TQ2_0 && typ != Q2_0 || math.IsNaN(ratio) {
				t.Errorf("%v, importance %v: %.3f of the variance is lost", typ, w != nil, ratio)
			}
		}
	}
}

// What cannot be encoded is refused, and not written.
func TestEncodeRefuses(t *testing.T) {
	x := make([]float32, 256)
	dst := make([]byte, RowBytes(Q4_K, 256))
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(-1)), 70000} {
		x[100] = v
		if err := Encode(Best, Q4_K, dst, x, 256, nil); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%v: %v", v, err)
		}
	}
	x[100] = 0
	if err := Encode(Best, Q4_K, dst, x, 128, nil); !errors.Is(err, ErrType) {
		t.Errorf("rows of half a block: %v", err)
	}
	if err := Encode(Best, Q4_K, dst[:10], x, 256, nil); !errors.Is(err, ErrShape) {
		t.Errorf("no room: %v", err)
	}
	if err := Encode(Best, IQ2_XXS, dst[:RowBytes(IQ2_XXS, 256)], x, 256, nil); !errors.Is(err, ErrImportance) {
		t.Errorf("no importance: %v", err)
	}
	if err := Encode(Best, IQ4_KS, dst, x, 256, nil); !errors.Is(err, ErrType) {
		t.Errorf("a type without an encoder: %v", err)
	}
}
