package nn

import (
	"math"
	"slices"
	"testing"
)

// Exponents are of what is far from the median, and bounded.
func TestExponents(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tt := range []struct {
		name  string
		sizes []float64
		root  int
		want  []int
	}{
		{"even", []float64{1, 1.9, 0.6, 1}, 2, []int{0, 0, 0, 0}},
		{"a little uneven", []float64{1, 1, 15.9, 1. / 16, 1}, 2, []int{0, 0, 0, 0, 0}},
		{"a large one, then all", []float64{1, 1, 1, 1 << 12, 3}, 2, []int{0, 0, 0, 6, 1}},
		{"a small one", []float64{1, 1, 0x1p-12, 1}, 2, []int{0, 0, -6, 0}},
		{"fourth roots", []float64{1, 1, 0x1p28, 0x1p-28, 1}, 4, []int{0, 0, 7, -7, 0}},
		{"of any unit", []float64{0x1p-900, 0x1p-900, 0x1p-880}, 2, []int{0, 0, 10}},
		{"bounded", []float64{1, 1, 1e300, 1e-300, 1}, 2, []int{0, 0, 12, -12, 0}},
		{"nothing", []float64{0, 0, 0}, 2, []int{0, 0, 0}},
		{"some nothing", []float64{0, 1, inf, 1 << 8, nan, 1}, 2, []int{0, 0, 0, 4, 0, 0}},
		{"ratios beyond floats", []float64{1e-308, 1e-308, 1e308}, 4, []int{0, 0, 12}},
	} {
		if got := exponents(tt.sizes, tt.root); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
