package lang_test

import (
	"math"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/internal/optest"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// TestOps compares operations with their definitions, element by element.
func TestOps(t *testing.T) {
	c := new(hf.Config).Part(map[string]any{"num_attention_heads": 2., "num_experts": 3.})
	optest.Check(t, c, []optest.Case{
		{"permute", lang.Permute((*hf.Config).Heads), optest.Counted(8, 3), []optest.Made{{[]uint64{8, 3}, func(i, j, _ uint64) uint64 {
			h, r := i/4, i%4
			return (4*h+r%2*2+r/2)*3 + j
		}}}},
		{"permute a bias", lang.Permute((*hf.Config).Heads), optest.Counted(8), []optest.Made{{[]uint64{8}, func(_, i, _ uint64) uint64 { return i/4*4 + i%2*2 + i%4/2 }}}},
		{"transpose", lang.Transpose, optest.Counted(2, 5, 3), []optest.Made{{[]uint64{2, 3, 5}, func(i, j, k uint64) uint64 { return k*15 + j*3 + i }}}},
		{"halves", lang.Halves, optest.Counted(2, 4, 3), []optest.Made{
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + i*3 + j }},
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + (i+2)*3 + j }},
		}},
		{"turns", lang.Turns, optest.Counted(2, 4, 3), []optest.Made{
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + 2*i*3 + j }},
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + (2*i+1)*3 + j }},
		}},
		{"turns of columns", lang.TurnsLast, optest.Counted(3, 4), []optest.Made{
			{[]uint64{3, 2}, func(i, j, _ uint64) uint64 { return 4*i + 2*j }},
			{[]uint64{3, 2}, func(i, j, _ uint64) uint64 { return 4*i + 2*j + 1 }},
		}},
		{"transpose and turns", lang.Then(lang.Transpose, lang.Turns), optest.Counted(2, 5, 4), []optest.Made{
			{[]uint64{2, 2, 5}, func(i, j, k uint64) uint64 { return k*20 + j*4 + 2*i }},
			{[]uint64{2, 2, 5}, func(i, j, k uint64) uint64 { return k*20 + j*4 + 2*i + 1 }},
		}},
		{"squeeze", lang.Squeeze, optest.Counted(4, 1, 3), []optest.Made{{[]uint64{4, 3}, func(i, j, _ uint64) uint64 { return 3*i + j }}}},
		{"flat", lang.Flat, optest.Counted(2, 3), []optest.Made{{[]uint64{6}, func(_, i, _ uint64) uint64 { return i }}}},
		{"taps", lang.Taps, optest.Counted(4, 3), []optest.Made{
			{[]uint64{4, 1, 3}, func(_, j, k uint64) uint64 { return 3*k + j }},
		}},
		{"grouped", lang.Grouped(func(*hf.Config) int { return 2 }), optest.Counted(6), []optest.Made{
			{[]uint64{2, 3}, func(i, j, _ uint64) uint64 { return 3*i + j }},
		}},
		{"one group", lang.Grouped(func(*hf.Config) int { return 1 }), optest.Counted(6), []optest.Made{
			{[]uint64{6}, func(_, i, _ uint64) uint64 { return i }},
		}},
		{"by expert", lang.ByExpert, optest.Counted(6, 2), []optest.Made{
			{[]uint64{3, 2, 2}, func(i, j, k uint64) uint64 { return 4*k + 2*i + j }},
		}},
		{"column", lang.Column, optest.Counted(4), []optest.Made{{[]uint64{4, 1}, func(i, _, _ uint64) uint64 { return i }}}},
	})
}

// TestOpsRefuse gives operations shapes that they do not fit.
func TestOpsRefuse(t *testing.T) {
	optest.Refuses(t, new(hf.Config).Part(map[string]any{"num_attention_heads": 3.}), map[string]lang.Op{
		"permute": lang.Permute((*hf.Config).Heads), "halves": lang.Halves, "turns": lang.Turns, "mxfp4": lang.MXFP4,
		"mxfp4Turns": lang.MXFP4Turns, "product": lang.Product, "transpose": lang.Transpose, "taps": lang.Taps,
		"together": lang.Together,
	})
}

// TestSeveral does operations to several tensors at a time.
func TestSeveral(t *testing.T) {
	a, b := optest.Counted(2, 3), optest.Counted(1, 3)
	out, err := lang.Together(nil, []lang.View{a, b})
	if err != nil || !slices.Equal(out[0].Shape, []uint64{3, 3}) {
		t.Fatalf("the shape %v, %v", out[0].Shape, err)
	}
	if got := optest.Read(t, out[0], 4); !slices.Equal(got, []float32{0, 1, 2, 3, 4, 5, 0, 1, 2}) {
		t.Errorf("together: %v", got)
	}
	if out, err = lang.Product(nil, []lang.View{optest.Counted(3), optest.Counted(3, 1)}); err != nil {
		t.Fatal(err)
	}
	if got := optest.Read(t, out[0], 2); !slices.Equal(got, []float32{0, 1, 4}) {
		t.Errorf("product: %v", got)
	}
	if _, err = lang.Product(nil, []lang.View{optest.Counted(3), optest.Counted(4)}); err == nil {
		t.Error("a product of vectors of different lengths")
	}
	out, err = lang.Each3(lang.AddOne, nil, lang.Flat)(nil, []lang.View{optest.Counted(2), optest.Counted(2), b})
	if err != nil || !slices.Equal(out[2].Shape, []uint64{3}) {
		t.Fatalf("each of three: %v, %v", out, err)
	}
	for i, want := range [][]float32{{1, 2}, {0, 1}, {0, 1, 2}} {
		if got := optest.Read(t, out[i], 5); !slices.Equal(got, want) {
			t.Errorf("each of three: number %d is %v, want %v", i, got, want)
		}
	}
}

// TestViews joins views along both of their ends.
func TestViews(t *testing.T) {
	v, err := lang.Beside(optest.Counted(2, 3), optest.Counted(2, 1))
	if err != nil || !slices.Equal(v.Shape, []uint64{2, 4}) {
		t.Fatalf("the shape %v, %v", v.Shape, err)
	}
	for step := range 9 {
		if got := optest.Read(t, v, step+1); !slices.Equal(got, []float32{0, 1, 2, 0, 3, 4, 5, 1}) {
			t.Errorf("beside, in pieces of %d: %v", step+1, got)
		}
	}
	if _, err := lang.Beside(optest.Counted(2, 3), optest.Counted(3, 3)); err == nil {
		t.Error("beside: other rows")
	}
	if _, err := lang.Joined(optest.Counted(2, 3), optest.Counted(2, 2)); err == nil {
		t.Error("joined: other columns")
	}
	if v, err = lang.Stacked([]lang.View{optest.Counted(2), lang.Constant([]float32{7, 8})}); err != nil || !slices.Equal(v.Shape, []uint64{2, 2}) {
		t.Fatalf("the shape %v, %v", v.Shape, err)
	}
	if got := optest.Read(t, v, 3); !slices.Equal(got, []float32{0, 1, 7, 8}) {
		t.Errorf("stacked: %v", got)
	}
	if _, err := optest.Counted(2, 3).As(5); err == nil {
		t.Error("a shape of fewer elements")
	}
}

// TestNumbers holds what is done to numbers to their definitions.
func TestNumbers(t *testing.T) {
	v := optest.Counted(3)
	plus, _ := lang.AddOne(nil, []lang.View{v})
	if got := optest.Read(t, plus[0], 2); !slices.Equal(got, []float32{1, 2, 3}) {
		t.Errorf("one more: %v", got)
	}
	decay, _ := lang.NegExp(nil, []lang.View{v})
	if got := optest.Read(t, decay[0], 2); got[0] != -1 || math.Abs(float64(got[2])+math.Exp(2)) > 1e-6 {
		t.Errorf("decays: %v", got)
	}
}

// TestMXFP4 packs blocks, and compares the numbers that both layouts stand for.
func TestMXFP4(t *testing.T) {
	const experts, rows, blocks = 2, 4, 3
	packed, scales := make([]byte, experts*rows*blocks*16), make([]byte, experts*rows*blocks)
	for i := range packed {
		packed[i] = byte(i*73 + i/16*5)
	}
	for i := range scales {
		scales[i] = byte(100 + i)
	}
	of := func(b []byte, shape ...uint64) lang.View {
		return lang.View{Shape: shape, Bytes: func(dst []byte, at uint64) error { copy(dst, b[at:]); return nil }}
	}
	in := []lang.View{of(packed, experts, rows, blocks, 16), of(scales, experts, rows, blocks)}
	// number returns the code and the scale of a number in a checkpoint: a byte has two neighbours, the low bits first.
	number := func(e, r, i int) (code, scale byte) {
		block := (e*rows+r)*blocks + i/32
		b := packed[16*block+i%32/2]
		return b >> (4 * (i % 2)) & 15, scales[block]
	}
	check := func(v lang.View, expert, row func(e, r int) int, nRows int) {
		t.Helper()
		if v.Type != gguf.MXFP4 || !slices.Equal(v.Shape, []uint64{experts, uint64(nRows), 32 * blocks}) {
			t.Fatalf("%v of %v", v.Type, v.Shape)
		}
		b := make([]byte, experts*nRows*blocks*17)
		for at := 0; at < len(b); at += 34 { // in pieces of two blocks
			n := min(34, len(b)-at)
			if err := v.Bytes(b[at:at+n], uint64(at/17*32)); err != nil {
				t.Fatal(err)
			}
		}
		for e := range experts {
			for r := range nRows {
				for i := range 32 * blocks {
					block := b[((e*nRows+r)*blocks+i/32)*17:]
					// A byte of GGUF has a number of the first half of the block in its low bits, and one of the second above.
					code := block[1+i%16] >> (4 * (i % 32 / 16)) & 15
					want, scale := number(expert(e, r), row(e, r), i)
					if code != want || block[0] != scale {
						t.Fatalf("expert %d, row %d, number %d: %d and %d, want %d and %d", e, r, i, code, block[0], want, scale)
					}
				}
			}
		}
	}
	same := func(e, _ int) int { return e }
	whole, err := lang.MXFP4(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	check(whole[0], same, func(_, r int) int { return r }, rows)
	both, err := lang.MXFP4Turns(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	check(both[0], same, func(_, r int) int { return 2 * r }, rows/2)
	check(both[1], same, func(_, r int) int { return 2*r + 1 }, rows/2)
}

// TestJoinedEmpty joins parts of which some have no rows.
func TestJoinedEmpty(t *testing.T) {
	none := lang.Constant(nil)
	v, err := lang.Joined(none, lang.Constant([]float32{1, 2}), none, none, lang.Constant([]float32{3}), none)
	got := make([]float32, 3)
	if err == nil {
		err = v.Read(got, 0)
	}
	if err != nil || !slices.Equal(v.Shape, []uint64{3}) || !slices.Equal(got, []float32{1, 2, 3}) {
		t.Errorf("%v of %v, %v", got, v.Shape, err)
	}
}
