package kernel

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var encodeSets = []ISA{Scalar, AVX2, AVX2 | AVX512}

// someRows are weights as those of models are, with runs of zeros, equal ones, tiny ones and a few that are far out.
func someRows(r *rand.Rand, rows, n int) []float32 {
	x := make([]float32, rows*n)
	for i := range x {
		x[i] = float32(r.NormFloat64()) * 0.1
		switch i / 32 % 11 {
		case 3:
			x[i] = 0
		case 5:
			x[i] = -0.25
		case 6:
			x[i] = 0.25
		case 7:
			x[i] *= 1e-12
		case 9:
			x[i] = float32(math.Abs(float64(x[i])))
		}
		if r.IntN(100) == 0 {
			x[i] *= 8
		}
	}
	return x
}

// decoded returns rows of n weights as floats.
func decoded(t *testing.T, typ Type, b []byte, n int) []float32 {
	t.Helper()
	size := RowBytes(typ, n)
	y := make([]float32, len(b)/size*n)
	for row := range len(b) / size {
		if err := Dequantize(typ, y[row*n:][:n], b[row*size:][:size]); err != nil {
			t.Fatal(err)
		}
	}
	return y
}

// In no block, of trellis types no row, does a search leave a larger error than the encoder does, weighted as it was asked to, and in all of them
// together a smaller one; every set finds the same.
func TestEncodeSearch(t *testing.T) {
	const n, rows, block = 768, 19, 32 // rows that fill no vector
	r := rand.New(rand.NewPCG(1, 0))   // how much a search saves in all is a matter of the weights
	x := someRows(r, rows, n)
	importance := make([]float32, n)
	for i := range importance {
		importance[i] = float32(r.ExpFloat64())
		if i/64 == 2 {
			importance[i] = 0
		}
	}
	for _, typ := range types {
		if !CanEncode(typ, n) {
			continue
		}
		width := block
		if RowBytes(typ, 256) > 0 && RowBytes(typ, block) == 0 {
			width = 256
		}
		if slices.Contains(trellises, typ) {
			width = n // rows have a scale
		}
		for _, w := range [][]float32{nil, importance} {
			if w == nil && NeedsImportance(typ) {
				continue
			}
			fast := make([]byte, rows*RowBytes(typ, n))
			if err := Encode(Best, typ, fast, x, n, w); err != nil {
				t.Fatal(err)
			}
			var found []byte
			for _, isa := range encodeSets {
				b := make([]byte, len(fast))
				if err := EncodeSearch(isa, typ, b, x, n, w, make([]byte, len(b))); err != nil {
					t.Fatalf("%v: %v", typ, err)
				}
				if found == nil {
					found = b
				} else if !bytes.Equal(b, found) {
					t.Errorf("%v, importance %v: set %#x finds other bytes than scalar", typ, w != nil, isa)
				}
			}
			if !Searched(typ) {
				if !bytes.Equal(found, fast) {
					t.Errorf("%v is not searched, and has other bytes", typ)
				}
				continue
			}
			u, v := decoded(t, typ, fast, n), decoded(t, typ, found, n)
			var before, after float64
			for at := 0; at < len(x); at += width {
				var old, now, mean float64
				for _, v := range x[at:][:width] {
					mean += float64(v) * float64(v) / float64(width)
				}
				for i := at; i < at+width; i++ {
					c := 1.0
					if w != nil {
						c = float64(w[i%n])
						if !strings.HasPrefix(typ.String(), "IQ") { // whose codes are at equal steps
							c *= math.Sqrt(mean + float64(x[i])*float64(x[i]))
						}
					}
					old += c * math.Pow(float64(x[i]-u[i]), 2)
					now += c * math.Pow(float64(x[i]-v[i]), 2)
				}
				if !(now <= old*(1+1e-6)) {
					t.Fatalf("%v, importance %v: block %d loses %g, %g before", typ, w != nil, at/width, now, old)
				}
				before, after = before+old, after+now
			}
			if !(after < 0.995*before) {
				t.Errorf("%v, importance %v: %.4g is lost of %.4g that the encoder loses", typ, w != nil, after, before)
			}
			t.Logf("%v, importance %v: %.3f of what the encoder loses", typ, w != nil, after/before)
		}
	}
}

// someProducts are those of inputs that depend on each other, as a model's do: [tokens][n].
func someProducts(r *rand.Rand, n int) (h []float32, x [][]float64) {
	const tokens, causes = 600, 24
	mix := make([]float64, causes*n)
	for i := range mix {
		mix[i] = r.NormFloat64()
	}
	h = make([]float32, n*n)
	for range tokens {
		row := make([]float64, n)
		for i := range row {
			row[i] = 0.3 * r.NormFloat64()
		}
		for c := range causes {
			u := r.NormFloat64() / float64(1+c/4)
			for i := range row {
				row[i] += u * mix[c*n+i]
			}
		}
		x = append(x, row)
	}
	for i := range n {
		for j := i; j < n; j++ {
			sum := 0.0
			for _, row := range x {
				sum += row[i] * row[j]
			}
			h[i*n+j] = float32(sum)
		}
	}
	return h, x
}

// The factor gives the loss of any errors as a sum over columns, of each what those before leave it; every set finds the
// same; and what is no sum of squares is an error.
func TestFactor(t *testing.T) {
	const n, damp = 77, 0.05
	r := rand.New(rand.NewPCG(3, 4))
	h, x := someProducts(r, n)
	mean := 0.0
	for i := range n {
		mean += float64(h[i*n+i]) / n
	}
	var first []float32
	for _, isa := range encodeSets {
		a := append([]float32(nil), h...)
		if err := Factor(isa, a, n, damp, make([]float64, n*n)); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = a
		}
		for i := range a {
			if a[i] != first[i] {
				t.Fatalf("set %#x: %g at %d, scalar has %g", isa, a[i], i, first[i])
			}
		}
	}
	for range 10 {
		e := make([]float64, n)
		want, got := 0.0, 0.0
		for i := range e {
			e[i] = r.NormFloat64()
			want += damp * mean * e[i] * e[i]
		}
		for _, row := range x {
			dot := 0.0
			for i := range e {
				dot += row[i] * e[i]
			}
			want += dot * dot
		}
		for i := range n {
			left := e[i]
			for j := range i {
				left += float64(first[i*n+j]) * e[j]
			}
			got += float64(first[i*n+i]) * left * left
		}
		if got *= mean; math.Abs(got-want) > 1e-4*want {
			t.Errorf("a loss of %g, want %g", got, want)
		}
	}
	zero := make([]float32, n*n)
	if err := Factor(Best, zero, n, damp, make([]float64, n*n)); err != nil || zero[0] != 1 || zero[1] != 0 || zero[n*n-1] != 1 {
		t.Errorf("no inputs: %v, %v", zero[:2], err)
	}
	for _, spoil := range []float32{float32(math.NaN()), float32(math.Inf(1)), 1e9} {
		b := append([]float32(nil), h...)
		b[5] = spoil
		if err := Factor(Best, b, n, damp, make([]float64, n*n)); !errors.Is(err, ErrIndefinite) {
			t.Errorf("%v: %v", spoil, err)
		}
	}
	if err := Factor(Best, h[1:], n, damp, make([]float64, n*n)); !errors.Is(err, ErrShape) {
		t.Errorf("a product is missing: %v", err)
	}
}

// Errors that are made good leave less of a loss than the best of each block for itself, more so where a span is wider; every
// set finds the same.
func TestEncodeCorrected(t *testing.T) {
	const n, rows, damp = 768, 19, 0.01
	r := rand.New(rand.NewPCG(5, 6))
	h, inputs := someProducts(r, n)
	x := someRows(r, rows, n)
	importance := make([]float32, n)
	for i := range importance {
		importance[i] = h[i*n+i]
	}
	// spans cuts h into squares, and makes factors of them.
	spans := func(span int) []float32 {
		var all []float32
		for at := 0; at < n; at += span {
			m := min(span, n-at)
			square := make([]float32, m*m)
			for i := range m {
				copy(square[i*m:][:m], h[(at+i)*n+at:][:m])
			}
			if err := Factor(Best, square, m, damp, make([]float64, m*m)); err != nil {
				t.Fatal(err)
			}
			all = append(all, square...)
		}
		return all
	}
	loss := func(typ Type, b []byte) float64 {
		y := decoded(t, typ, b, n)
		sum := 0.0
		for row := range rows {
			for _, in := range inputs {
				dot := 0.0
				for i := range n {
					dot += in[i] * float64(x[row*n+i]-y[row*n+i])
				}
				sum += dot * dot
			}
		}
		return sum
	}
	narrow, wide := spans(512), spans(n)
	for _, typ := range []Type{
		Q4_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q6_K, IQ4_NL, IQ4_XS, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S,
	} {
		b := make([]byte, rows*RowBytes(typ, n))
		if err := EncodeSearch(Best, typ, b, x, n, importance, make([]byte, len(b))); err != nil {
			t.Fatal(err)
		}
		alone := loss(typ, b)
		if err := EncodeCorrected(Best, typ, b, x, n, narrow, 512, CorrectedScratch(nil, n, 512)); err != nil {
			t.Fatal(err)
		}
		within := loss(typ, b)
		var first []byte
		for _, isa := range encodeSets {
			if err := EncodeCorrected(isa, typ, b, x, n, wide, n, CorrectedScratch(nil, n, n)); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = append(first, b...)
			} else if !bytes.Equal(b, first) {
				t.Errorf("%v: set %#x finds other bytes than scalar", typ, isa)
			}
		}
		whole := loss(typ, b)
		t.Logf("%v: a loss of %.4g, %.3f of it made good within 512 columns, %.3f in all", typ, alone, within/alone, whole/alone)
		if !(whole < within && within < 0.3*alone) {
			t.Errorf("%v: a loss of %.4g made good, %.4g within 512 columns, %.4g without", typ, whole, within, alone)
		}
	}
	b, scratch := make([]byte, rows*RowBytes(Q4_K, n)), CorrectedScratch(nil, n, n)
	if err := EncodeCorrected(Best, Q4_K, b, x, n, wide[1:], n, scratch); !errors.Is(err, ErrShape) {
		t.Errorf("a short factor: %v", err)
	}
	if err := EncodeCorrected(Best, Q4_K, b, x, n, narrow, 512, scratch[1:]); !errors.Is(err, ErrShape) {
		t.Errorf("a scratch that is not aligned: %v", err)
	}
	for _, typ := range []Type{F16, TQ2_0} {
		if err := EncodeCorrected(Best, typ, make([]byte, rows*RowBytes(typ, n)), x, n, wide, n, scratch); !errors.Is(err, ErrShape) {
			t.Errorf("%v, of which nothing is searched: %v", typ, err)
		}
	}
}

// Products of columns are those of what a product was multiplied by: floats, or integers with a scale.
func TestTapProducts(t *testing.T) {
	const tok, in = 45, 2*256 + 32
	r := rand.New(rand.NewPCG(7, 8))
	for _, typ := range []Type{F32, Q8_0} {
		for _, span := range []int{256, in, 1 << 20} {
			m := Matrix{Type: typ, In: in, Out: 16, N: 1, Data: alloc(t, 16*RowBytes(typ, in))}
			g := newRig(t, []BufSpec{{Width: in}, {Kind: typ.Act(), Width: in}, {Width: 16}}, tok, 1, 1)
			g.tokens(tok)
			for i := range tok {
				for j := range in {
					g.bufs.Row(0, i)[j] = r.Float32() - 0.3
				}
			}
			act := Act{typ.Act(): 1}
			p, err := NewPlan(g.specs, ToAct{Act: act, Src: 0, Cols: in}, Matmul{Dst: 2, Act: act, Parts: []Part{{Matrix: m}}})
			if err != nil {
				t.Fatal(err)
			}
			if p.TapProducts(1, span, nil) != nil {
				t.Error("products of what is not tapped")
			}
			p.Tap(true)
			if p.TapProducts(0, span, nil) != nil || p.TapProducts(1, 100, nil) != nil || p.TapProducts(1, span, make([]float32, 32)) != nil || p.TapProducts(1, span, nil) == nil {
				t.Error("products of no product, of spans inside a block, among those of another shape, or none of a product")
			}
			scratch := alloc(t, max(p.Scratch(tok), Align)*g.pool.Threads())
			for range 2 { // sums go on
				p.Run(g.pool, g.bufs, g.Batch, scratch)
			}
			tap := p.Taps()[0]
			wide := min(span, in)
			if len(tap.Products) != SpanFloats(in, wide) {
				t.Fatalf("%d products", len(tap.Products))
			}
			for at, rest := 0, tap.Products; at < in; at += wide {
				n := min(wide, in-at)
				for i := range n {
					if got, want := float64(rest[i*n+i]), tap.Sums[at+i]; math.Abs(got-want) > 1e-4*want {
						t.Fatalf("%v, column %d: a sum of squares of %g, and of products %g", typ, at+i, want, got)
					}
					for j := i + 1; j < n && typ == F32; j++ {
						want := 0.0
						for k := range tok {
							row := g.bufs.Row(0, k)
							want += 2 * float64(row[at+i]) * float64(row[at+j])
						}
						if got := float64(rest[i*n+j]); math.Abs(got-want) > 1e-4*math.Abs(want)+1e-4 {
							t.Fatalf("columns %d and %d: %g, want %g", at+i, at+j, got, want)
						}
					}
				}
				rest = rest[n*n:]
			}
			p.Tap(false)
			p.Close()
		}
	}
}
