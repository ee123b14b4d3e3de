package quant

import (
	"math"
	"slices"
	"testing"
)

// Sums are added only where both have the numbers of rows, which files of the old format lack.
func TestMerge(t *testing.T) {
	of := func(size int) *Matrix {
		return &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{1, 2}, Counts: []float32{3}}}, Chunks: 1, ChunkSize: size}
	}
	both := of(512)
	if err := both.Merge(of(512)); err != nil || both.Chunks != 2 || both.Entries["x"].Sums[1] != 4 || both.Entries["x"].Counts[0] != 6 {
		t.Errorf("got %+v, %v", both.Entries["x"], err)
	}
	for _, sizes := range [][2]int{{0, 512}, {512, 0}, {0, 0}} {
		m := of(sizes[0])
		if err := m.Merge(of(sizes[1])); err == nil || m.Chunks != 1 || m.Entries["x"].Sums[0] != 1 {
			t.Errorf("%v: %+v, %v; want it to be refused, and nothing added", sizes, m.Entries["x"], err)
		}
	}
}

// Sums that are not finite are refused, and tensors that no row met are left out and named.
func TestUnused(t *testing.T) {
	m := &Matrix{Entries: map[string]*Entry{}}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if err := m.Add("bad", []float64{1, bad}, []int64{1}); err == nil {
			t.Errorf("%v was added", bad)
		}
		delete(m.Entries, "bad")
	}
	for name, counts := range map[string][]int64{"none": {0, 0}, "some": {0, 1}, "all": {1, 2}} {
		if err := m.Add(name, []float64{1, 2}, counts); err != nil {
			t.Fatal(err)
		}
	}
	none, some := m.Unused()
	if !slices.Equal(none, []string{"none"}) || !slices.Equal(some, []string{"some"}) || len(m.Entries) != 2 {
		t.Errorf("%v unused, %v in part, %d are left", none, some, len(m.Entries))
	}
}
