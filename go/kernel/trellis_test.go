package kernel

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
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
	return b, errorOf(t, typ, b, x, n, importance)
}

// errorOf returns what rows lose.
func errorOf(t *testing.T, typ Type, b []byte, x []float32, n int, importance []float32) float64 {
	t.Helper()
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
	return off / all
}

// normal returns weights of a normal distribution.
func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.02
	}
	return x
}

// Of a Gaussian source no code of b bits a weight loses less than 4^-b of the squares: what is lost lies above that, and
// below the bound of a little more than half a bit less.
func TestTrellisGaussian(t *testing.T) {
	const n, rows = 1024, 8
	r := rand.New(rand.NewPCG(1, 2))
	x := normal(r, n*rows)
	importance := make([]float32, n)
	for i := range importance {
		importance[i] = float32(math.Exp(r.NormFloat64()))
	}
	for _, typ := range trellises {
		bits := float64(RowBytes(typ, 1<<20)) / (1 << 17)
		lost := func(e float64) float64 { return bits + math.Log2(e)/2 }
		_, fast := trellisError(t, CPU(), typ, x, n, nil, false)
		b, search := trellisError(t, CPU(), typ, x, n, nil, true)
		weighted, _ := trellisError(t, CPU(), typ, x, n, importance, true)
		t.Logf("%v: fast %.5f, %.3f bits lost; search %.5f, %.3f", typ, fast, lost(fast), search, lost(search))
		if !(lost(search) > 0.2 && lost(search) < 0.48 && lost(fast) < 0.58 && search < fast) {
			t.Errorf("%v: search loses %.3f bits, fast %.3f", typ, lost(search), lost(fast))
		}
		plain, minded := errorOf(t, typ, b, x, n, importance), errorOf(t, typ, weighted, x, n, importance)
		if !(minded < 0.85*plain) {
			t.Errorf("%v: %.5f is lost weighted by importance, %.5f without it", typ, minded, plain)
		}
	}
}

// The codes that are found for the scales that are found lose hardly more than the best of all codes.
func TestTrellisNearest(t *testing.T) {
	const n = 512
	r := rand.New(rand.NewPCG(3, 4))
	x := normal(r, n)
	b, _ := trellisError(t, CPU(), IQ2_KT, x, n, nil, true)
	d := math.Float32frombits(uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24) * 1.05
	var all [1 << 16][8]float32
	for code := range all {
		v := 4096 + uint32(code)
		for i := range 8 {
			v *= 0xcbac1fed
			all[code][i] = float32(int(v&63+v>>8&63+v>>16&63+v>>24&63) - 126)
		}
	}
	levels := []float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	var found, best float64
	for g := range n / 8 {
		block, j := b[4+g/32*68:], g/4%8
		scale := d * levels[block[j%4]>>(4*(j/4))&15]
		off := func(code int) (sum float64) {
			for i, v := range all[code] {
				sum += math.Pow(float64(x[8*g+i]-scale*v), 2)
			}
			return sum
		}
		at := block[4+2*(g%32):]
		found += off(int(at[0]) | int(at[1])<<8)
		least := math.Inf(1)
		for code := range all {
			least = min(least, off(code))
		}
		best += least
	}
	if t.Logf("%.4f of the least error", found/best); found > 1.02*best || found < best {
		t.Errorf("codes lose %.4f of what the best ones lose", found/best)
	}
}

// Every set finds the same, in any number of threads.
func TestTrellisSets(t *testing.T) {
	const n, rows = 512, 2
	r := rand.New(rand.NewPCG(5, 6))
	x := normal(r, n*rows)
	importance := normal(r, n)
	for i, v := range importance {
		importance[i] = v * v
	}
	for _, typ := range trellises {
		for _, search := range []bool{false, true} {
			var first []byte
			var all sync.WaitGroup
			var mu sync.Mutex
			for _, isa := range append(encodeSets, encodeSets...) {
				all.Go(func() {
					b := make([]byte, rows*RowBytes(typ, n))
					err := Encode(isa, typ, b, x, n, importance)
					if search {
						err = EncodeSearch(isa, typ, b, x, n, importance, make([]byte, len(b)))
					}
					mu.Lock()
					defer mu.Unlock()
					if err != nil || first != nil && !bytes.Equal(b, first) {
						t.Errorf("%v, search %v: set %#x: %v, or other bytes", typ, search, isa, err)
					}
					first = b
				})
			}
			all.Wait()
		}
	}
}

// Zeros stay zeros, and what squares overflow or vanish for is encoded like other weights; what cannot be is refused.
func TestTrellisExtremes(t *testing.T) {
	const n = 512
	r := rand.New(rand.NewPCG(7, 8))
	for _, typ := range trellises {
		x := normal(r, n)
		ones := make([]float32, n)
		for i := range ones {
			ones[i] = 1
		}
		_, want := trellisError(t, CPU(), typ, x, n, ones, false)
		for _, c := range []struct{ scale, importance float32 }{{1 << 30, 1}, {1e-9, 1}, {1e38, 1e38}, {1, 3e38}, {1, 1e-38}, {1, 0}} {
			y, w := make([]float32, n), make([]float32, n)
			for i := range y {
				y[i], w[i] = x[i]*c.scale, c.importance
			}
			b, _ := trellisError(t, CPU(), typ, y, n, w, false)
			if got := errorOf(t, typ, b, y, n, nil); !(math.Abs(got-want) < 0.05*want) {
				t.Errorf("%v, weights times %g that count %g each: %.5f is lost, want %.5f", typ, c.scale, c.importance, got, want)
			}
		}
		clear(x[32:])
		b, lost := trellisError(t, CPU(), typ, x, n, nil, true)
		if y := decoded(t, typ, b, n); !(lost < 0.4) || slices.ContainsFunc(y[64:], func(v float32) bool { return math.Abs(float64(v)) > 1e-3 }) {
			t.Errorf("%v: of 32 weights and zeros %.3f is lost, and there are %v", typ, lost, y[64:72])
		}
		clear(x)
		b = make([]byte, RowBytes(typ, n))
		if err := Encode(CPU(), typ, b, x, n, nil); err != nil {
			t.Fatal(err)
		}
		if y := decoded(t, typ, b, n); slices.ContainsFunc(y, func(v float32) bool { return v != 0 }) {
			t.Errorf("%v: zeros are %v", typ, y[:8])
		}
		for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			x[300] = v
			if err := Encode(CPU(), typ, b, x, n, nil); !errors.Is(err, ErrNotFinite) {
				t.Errorf("%v of %v: %v", typ, v, err)
			}
			if err := EncodeSearch(CPU(), typ, b, x, n, nil, make([]byte, len(b))); !errors.Is(err, ErrNotFinite) {
				t.Errorf("search for %v of %v: %v", typ, v, err)
			}
		}
		if err := Encode(CPU(), typ, b, x[:384], 384, nil); !errors.Is(err, ErrType) {
			t.Errorf("%v, rows of 384: %v", typ, err)
		}
		if Correctable(typ) || !Searched(typ) {
			t.Errorf("%v is not as documented", typ)
		}
	}
}

// Bytes are weights.
func BenchmarkTrellis(b *testing.B) {
	const n = 4096
	x := normal(rand.New(rand.NewPCG(1, 2)), n)
	for _, typ := range trellises {
		dst := make([]byte, RowBytes(typ, n))
		for name, encode := range map[string]func() error{
			"fast":   func() error { return Encode(CPU(), typ, dst, x, n, nil) },
			"search": func() error { return EncodeSearch(CPU(), typ, dst, x, n, nil, make([]byte, len(dst))) },
		} {
			b.Run(typ.String()+"/"+name, func(b *testing.B) {
				b.SetBytes(n)
				for b.Loop() {
					if err := encode(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
