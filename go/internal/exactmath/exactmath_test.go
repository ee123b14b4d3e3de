package exactmath

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
)

// ulps returns how many floats lie between a and b.
func ulps(a, b float64) int64 {
	d := int64(math.Float64bits(a) - math.Float64bits(b))
	return max(d, -d)
}

// Values from tables, to more digits than a float has.
func TestKnown(t *testing.T) {
	for _, tt := range []struct{ got, want float64 }{
		{Log(10), 2.302585092994045684017991454684364208},
		{Log(2), 0.693147180559945309417232121458176568},
		{Log(1), 0},
		{Log(0.5), -0.693147180559945309417232121458176568},
		{Log(500000), 13.12236337740432879469071},
		{Pow(2, 0.5), 1.414213562373095048801688724209698079},
		{Pow(10, 0.5), 3.162277660168379331998893544432718534},
		{Pow(10000, -0.25), 0.1},
		{Pow(10000, -0.5), 0.01},
		{Pow(7, 3), 343},
		{Pow(2, -1000), 0x1p-1000},
		{Pow(5, 0), 1},
	} {
		if tt.got != tt.want {
			t.Errorf("%v, want %v", tt.got, tt.want)
		}
	}
}

// Package math is within an ulp or two.
func TestNear(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		x, y := math.Exp(r.Float64()*40-20), r.Float64()*8-4
		if got, want := Log(x), math.Log(x); ulps(got, want) > 1 {
			t.Errorf("Log(%v) = %v, math has %v", x, got, want)
		}
		if got, want := Pow(x, y), math.Pow(x, y); math.Abs(got-want) > 1e-14*want {
			t.Errorf("Pow(%v, %v) = %v, math has %v", x, y, got, want)
		}
	}
}

func TestEdges(t *testing.T) {
	inf := math.Inf(1)
	for _, x := range []float64{0, -1, inf, math.NaN(), math.SmallestNonzeroFloat64} {
		if got, want := Log(x), math.Log(x); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("Log(%v) = %v, want %v", x, got, want)
		}
		for _, y := range []float64{0, 1, -2, inf, -inf, math.NaN()} {
			if got, want := Pow(x, y), math.Pow(x, y); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("Pow(%v, %v) = %v, want %v", x, y, got, want)
			}
		}
	}
}

// The same on every machine.
func TestSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	h := fnv.New64a()
	for range 500 {
		x, y := 1+r.Float64()*1e6, r.Float64()*2-2
		for _, v := range []float64{Log(x), Pow(x, y)} {
			bits := math.Float64bits(v)
			for i := range 8 {
				h.Write([]byte{byte(bits >> (8 * i))})
			}
		}
	}
	if got, want := h.Sum64(), uint64(0x450cb3c0b2b503f5); got != want {
		t.Errorf("hash %#x, want %#x", got, want)
	}
}

func TestQuickLog(t *testing.T) {
	t.Parallel()
	for x := 1e-20; x < 1e30; x *= 1.07 {
		if got, want := Log1p(x), math.Log1p(x); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("Log1p(%g) = %g, want %g", x, got, want)
		}
	}
	for _, x := range []float64{1e-10, 0.5, 0.7, 0.71, 1, 2, 3, 12345.678, 1e10} {
		if got := QuickLog(x); math.Abs(got-math.Log(x)) > 5e-15*max(1, math.Abs(got)) {
			t.Errorf("QuickLog(%v) = %v, math has %v", x, got, math.Log(x))
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		if got := Log1p(x); got-got == 0 {
			t.Errorf("Log1p(%g) = %g, want it to show", x, got)
		}
	}
}

func TestQuickExp(t *testing.T) {
	t.Parallel()
	for x := -699.9; x < 700; x += 0.37 {
		if got, want := QuickExp(x), math.Exp(x); math.Abs(got-want) > 2e-15*want {
			t.Fatalf("QuickExp(%g) = %g, want %g", x, got, want)
		}
	}
	if QuickExp(0) != 1 || QuickExp(math.Inf(-1)) != 0 || !math.IsInf(QuickExp(math.Inf(1)), 1) || !math.IsNaN(QuickExp(math.NaN())) {
		t.Error("0, infinities or NaN")
	}
}

func TestSine(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	h := fnv.New64a()
	for range 20000 {
		x := (r.Float64() - 0.5) * float64(uint(2)<<r.IntN(17))
		for _, c := range []struct{ got, want float64 }{{Sin(x), math.Sin(x)}, {Cos(x), math.Cos(x)}} {
			if math.Abs(c.got-c.want) > 4e-16 {
				t.Fatalf("of %v: %v, math has %v", x, c.got, c.want)
			}
			bits := math.Float64bits(c.got)
			for i := range 8 {
				h.Write([]byte{byte(bits >> (8 * i))})
			}
		}
	}
	for _, c := range []struct{ got, want float64 }{
		{Sin(0), 0}, {Cos(0), 1}, {Sin(math.Pi / 6), 0.5}, {Cos(math.Pi), -1}, {Sin(math.Pi / 2), 1}, {Sin(-1), -0.8414709848078965},
		{Cos(1), 0.5403023058681398}, {Sin(100000), 0.03574879797201651},
	} {
		if ulps(c.got, c.want) > 1 {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
	if got, want := h.Sum64(), uint64(0x79ee8772613199bb); got != want {
		t.Errorf("hash %#x, want %#x", got, want)
	}
}
