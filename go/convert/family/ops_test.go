package family

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
)

// counted returns a view whose elements are their own numbers.
func counted(shape ...uint64) lang.View {
	v := lang.View{Shape: shape}
	v.Read = func(dst []float32, at uint64) error {
		if at+uint64(len(dst)) > v.Elems() {
			return fmt.Errorf("elements %d to %d of %d", at, at+uint64(len(dst)), v.Elems())
		}
		for i := range dst {
			dst[i] = float32(at) + float32(i)
		}
		return nil
	}
	return v
}

// all reads a view in pieces of n.
func all(t *testing.T, v lang.View, n int) []float32 {
	t.Helper()
	out := make([]float32, v.Elems())
	for at := 0; at < len(out); at += n {
		if err := v.Read(out[at:min(at+n, len(out))], uint64(at)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func numbersIn(m map[string]any) *hf.Config { return new(hf.Config).Part(m) }

// TestOps holds operations to what they are, element by element.
func TestOps(t *testing.T) {
	c := numbersIn(map[string]any{
		"num_attention_heads": 2., "qk_nope_head_dim": 2., "v_head_dim": 3., "linear_num_key_heads": 2., "linear_num_value_heads": 4.,
		"linear_key_head_dim": 1., "linear_value_head_dim": 2., "pad_token_id": 1.,
	})
	for _, x := range []struct {
		name string
		do   lang.Op
		in   lang.View
		want []struct {
			shape []uint64
			of    func(i, j, k uint64) uint64 // the number of the element at row i, column j of matrix k in what was there
		}
	}{
		{"permute", lang.Permute((*hf.Config).Heads), counted(8, 3), []made{{[]uint64{8, 3}, func(i, j, _ uint64) uint64 {
			h, r := i/4, i%4
			return (4*h+r%2*2+r/2)*3 + j
		}}}},
		{"permute a bias", lang.Permute((*hf.Config).Heads), counted(8), []made{{[]uint64{8}, func(_, i, _ uint64) uint64 { return i/4*4 + i%2*2 + i%4/2 }}}},
		{"transpose", lang.Transpose, counted(2, 5, 3), []made{{[]uint64{2, 3, 5}, func(i, j, k uint64) uint64 { return k*15 + j*3 + i }}}},
		{"halves", lang.Halves, counted(2, 4, 3), []made{
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + i*3 + j }},
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + (i+2)*3 + j }},
		}},
		{"turns", lang.Turns, counted(2, 4, 3), []made{
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + 2*i*3 + j }},
			{[]uint64{2, 2, 3}, func(i, j, k uint64) uint64 { return k*12 + (2*i+1)*3 + j }},
		}},
		{"turns of columns", lang.TurnsLast, counted(3, 4), []made{
			{[]uint64{3, 2}, func(i, j, _ uint64) uint64 { return 4*i + 2*j }},
			{[]uint64{3, 2}, func(i, j, _ uint64) uint64 { return 4*i + 2*j + 1 }},
		}},
		{"transpose and turns", lang.Then(lang.Transpose, lang.Turns), counted(2, 5, 4), []made{
			{[]uint64{2, 2, 5}, func(i, j, k uint64) uint64 { return k*20 + j*4 + 2*i }},
			{[]uint64{2, 2, 5}, func(i, j, k uint64) uint64 { return k*20 + j*4 + 2*i + 1 }},
		}},
		{"keys and values", keysValues, counted(10, 4), []made{
			{[]uint64{2, 4, 2}, func(i, j, k uint64) uint64 { return (5*k+j)*4 + i }},
			{[]uint64{2, 3, 4}, func(i, j, k uint64) uint64 { return (5*k+2+i)*4 + j }},
		}},
		{"tile", tile(0, valueDim), counted(8, 3), []made{{[]uint64{8, 3}, func(i, j, _ uint64) uint64 { // heads 0 1 of the first, 2 3 of the second
			h, d := i/2, i%2
			return (h%2*4+h/2*2+d)*3 + j
		}}}},
		{"tile columns", tile(1, valueDim), counted(3, 8), []made{{[]uint64{3, 8}, func(i, j, _ uint64) uint64 {
			h, d := j/2, j%2
			return 8*i + h%2*4 + h/2*2 + d
		}}}},
		{"tile values", tileValues, counted(12, 3), []made{{[]uint64{12, 3}, func(i, j, _ uint64) uint64 {
			if i < 4 {
				return 3*i + j
			}
			h, d := (i-4)/2, (i-4)%2
			return (4+h%2*4+h/2*2+d)*3 + j
		}}}},
		{"queries, keys, values and gates", queriesKeysValuesGates, counted(20, 3), []made{ // by head: q k v v v v z z z z
			{[]uint64{12, 3}, func(i, j, _ uint64) uint64 {
				switch {
				case i < 2:
					return i*10*3 + j
				case i < 4:
					return ((i-2)*10+1)*3 + j
				}
				return ((i-4)/4*10+2+(i-4)%4)*3 + j
			}},
			{[]uint64{8, 3}, func(i, j, _ uint64) uint64 { return (i/4*10+6+i%4)*3 + j }},
		}},
		{"threes", threes, counted(12, 3), []made{{[]uint64{12, 3}, func(i, j, _ uint64) uint64 { // of 2 heads of 2
			part, h, d := i/4, i%4/2, i%2
			return (6*h+2*part+d)*3 + j
		}}}},
		{"from a token on", fromPad, counted(5, 3), []made{{[]uint64{3, 3}, func(i, j, _ uint64) uint64 { return (i+2)*3 + j }}}},
		{"squeeze", lang.Squeeze, counted(4, 1, 3), []made{{[]uint64{4, 3}, func(i, j, _ uint64) uint64 { return 3*i + j }}}},
		{"column", lang.Column, counted(4), []made{{[]uint64{4, 1}, func(i, _, _ uint64) uint64 { return i }}}},
	} {
		out, err := x.do(c, []lang.View{x.in})
		if err != nil || c.Err() != nil || len(out) != len(x.want) {
			t.Errorf("%s: %d tensors, %v, %v", x.name, len(out), err, c.Err())
			continue
		}
		for n, w := range x.want {
			if !slices.Equal(out[n].Shape, w.shape) {
				t.Errorf("%s: the shape %v, want %v", x.name, out[n].Shape, w.shape)
				continue
			}
			want := make([]float32, out[n].Elems())
			cols := w.shape[len(w.shape)-1]
			rows := uint64(1)
			if len(w.shape) > 1 {
				rows = w.shape[len(w.shape)-2]
			}
			for e := range want {
				i, j := uint64(e)/cols, uint64(e)%cols
				want[e] = float32(w.of(i%rows, j, i/rows))
			}
			for _, step := range []int{1, 2, 3, 5, 7, 1000} {
				if got := all(t, out[n], step); !slices.Equal(got, want) {
					t.Errorf("%s, in pieces of %d: %v, want %v", x.name, step, got, want)
				}
			}
		}
	}
}

type made = struct {
	shape []uint64
	of    func(i, j, k uint64) uint64
}

// TestOpsRefuse gives operations shapes that they do not fit.
func TestOpsRefuse(t *testing.T) {
	c := numbersIn(map[string]any{"num_attention_heads": 3., "linear_num_key_heads": 2., "linear_num_value_heads": 3.})
	for name, do := range map[string]lang.Op{
		"permute": lang.Permute((*hf.Config).Heads), "halves": lang.Halves, "turns": lang.Turns, "keysValues": keysValues, "tile": tile(0, headOne),
		"tileValues": tileValues, "qkvz": queriesKeysValuesGates, "mxfp4": lang.MXFP4, "threes": threes,
	} {
		for _, v := range []lang.View{counted(7), counted(7, 5), counted(1, 7, 5), counted(0, 3)} {
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s of %v panics: %v", name, v.Shape, p)
					}
				}()
				_, _ = do(c, []lang.View{v, v})
			}()
		}
	}
}

// TestNumbers holds what is done to numbers to their definitions.
func TestNumbers(t *testing.T) {
	v := counted(3)
	plus, _ := lang.AddOne(nil, []lang.View{v})
	if got := all(t, plus[0], 2); !slices.Equal(got, []float32{1, 2, 3}) {
		t.Errorf("one more: %v", got)
	}
	decay, _ := lang.NegExp(nil, []lang.View{v})
	if got := all(t, decay[0], 2); got[0] != -1 || math.Abs(float64(got[2])+math.Exp(2)) > 1e-6 {
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
		if v.Typ != gguf.MXFP4 || !slices.Equal(v.Shape, []uint64{experts, uint64(nRows), 32 * blocks}) {
			t.Fatalf("%v of %v", v.Typ, v.Shape)
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
