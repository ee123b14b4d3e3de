package lang

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// Blocks with factors beside them stay together where the file has a place for the factors: one for each of several matrices,
// and one for the rows of one.
func TestScalesOfHeld(t *testing.T) {
	part := func(scales []float32, shape ...uint64) View {
		return View{Shape: shape, Read: func([]float32, uint64) error { return nil },
			Held: []Held{{Type: gguf.NVFP4, Exact: true, Bytes: func([]byte, uint64) error { return nil }, Scales: scales}}}
	}
	one := []float32{2}
	for _, c := range []struct {
		name  string
		parts []View
		want  []float32
		held  bool
	}{
		{"rows with the same factor", []View{part(one, 1, 64), part(one, 2, 64)}, one, true},
		{"rows with others", []View{part(one, 1, 64), part([]float32{3}, 2, 64)}, nil, false},
		{"rows with a factor and without", []View{part(one, 1, 64), part(nil, 2, 64)}, nil, false},
		{"no factors", []View{part(nil, 1, 64), part(nil, 2, 64)}, nil, true},
		{"matrices", []View{part(one, 1, 2, 64), part([]float32{3}, 2, 2, 64)}, []float32{2, 3, 3}, true},
		{"matrices with a factor and without", []View{part(one, 1, 2, 64), part(nil, 1, 2, 64)}, nil, false},
	} {
		v, err := Joined(c.parts...)
		if err != nil {
			t.Fatal(err)
		}
		h, ok := v.HeldAs(gguf.NVFP4)
		if ok != c.held || !slices.Equal(h.Scales, c.want) {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, h.Scales, ok, c.want, c.held)
		}
	}
	all, _ := Joined(part(one, 1, 2, 64), part([]float32{3}, 1, 2, 64))
	if got := all.Strided(0, Dim{1, 128}, Dim{2, 64}, Dim{64, 1}).Held; len(got) > 0 {
		t.Errorf("a part of matrices with factors of their own is held: %v", got[0].Scales)
	}
	if got := part(one, 4, 64).Strided(128, Dim{2, 64}, Dim{64, 1}).Held; len(got) != 1 || !slices.Equal(got[0].Scales, one) {
		t.Errorf("rows of a matrix are held as %v", got)
	}
}
