package kernel

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

var trellises = []Type{IQ1_KT, IQ2_KT, IQ3_KT, IQ4_KT}

// trellisError encodes rows of n weights and returns their bytes and what is lost, as a part of the weighted squares.
func trellisError(t *testing.T, isa ISA, typ Type, x []float32, n int, importance []float32, search bool) ([]byte, float64) {
	t.Helper()
	b := make([]byte, len(x)/n*RowBytes(typ, n))
	var err error
	if search {
		err = EncodeSearch(isa, typ, b, x, n, importance, make([]byte, len(b)))
	} else {
		err = Encode(isa, typ, b, x, n, importance)
	}
	if err != nil {
		t.Fatalf("%v: %v", typ, err)
	}
	y := make([]float32, n)
	var off, all float64
	for r := range len(x) / n {
		if err := Dequantize(typ, y, b[r*len(b)/(len(x)/n):][:RowBytes(typ, n)]); err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		for i, v := range x[r*n:][:n] {
			w := 1.0
			if importance != nil {
				w = float64(importance[i])
			}
			off += w * (float64(v) - float64(y[i])) * (float64(v) - float64(y[i]))
			all += w * float64(v) * float64(v)
		}
	}
	return b, off / all
}

func TestTrellisTry(t *testing.T) {
	const n, rows = 1024, 16
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n*rows)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.02
	}
	imp := make([]float32, n)
	for i := range imp {
		imp[i] = float32(math.Exp(r.NormFloat64()))
	}
	for _, typ := range append(trellises, IQ2_XS, IQ2_S, Q2_K, IQ3_S, IQ3_XXS, IQ4_XS, IQ1_M) {
		bpw := float64(RowBytes(typ, 1<<20)) / (1 << 17)
		for _, w := range [][]float32{nil, imp} {
			if w == nil && NeedsImportance(typ) {
				w = make([]float32, n)
				for i := range w {
					w[i] = 1
				}
			}
			_, fast := trellisError(t, CPU(), typ, x, n, w, false)
			_, search := trellisError(t, CPU(), typ, x, n, w, true)
			t.Logf("%v bpw %.3f imp %v fast %.5f search %.5f  bound %.5f  lost bits %.3f", typ, bpw, w != nil, fast, search, math.Pow(4, -bpw), bpw+0.5*math.Log2(search))
		}
	}
	_ = bytes.Equal
	_ = errors.Is
}

func BenchmarkTrellis(b *testing.B) {
	const n = 4096
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.02
	}
	for _, typ := range trellises {
		dst := make([]byte, RowBytes(typ, n))
		for _, s := range []string{"fast", "search"} {
			b.Run(typ.String()+"/"+s, func(b *testing.B) {
				b.SetBytes(n)
				for b.Loop() {
					var err error
					if s == "fast" {
						err = Encode(CPU(), typ, dst, x, n, nil)
					} else {
						err = EncodeSearch(CPU(), typ, dst, x, n, nil, make([]byte, len(dst)))
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
