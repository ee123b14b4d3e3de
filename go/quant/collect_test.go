package quant

import (
	"math"
	"reflect"
	"slices"
	"strings"
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

// A matrix that is merged has the sums, the texts and the tensors of both, each text once; its copy stays as it was.
func TestMergeOfOthers(t *testing.T) {
	m := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{1, 2}, Counts: []float32{3}}}, Datasets: []string{"a", "b"}, Chunks: 1, ChunkSize: 512}
	before := m.Clone()
	other := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{10, 20}, Counts: []float32{30}}, "y": {Sums: []float32{5}, Counts: []float32{7}}},
		Datasets: []string{"b", "c"}, Chunks: 10, ChunkSize: 256}
	if err := m.Merge(other); err != nil {
		t.Fatal(err)
	}
	want := &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{11, 22}, Counts: []float32{33}}, "y": {Sums: []float32{5}, Counts: []float32{7}}},
		Datasets: []string{"a", "b", "c"}, Chunks: 11, ChunkSize: 512}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, want %+v", m, want)
	}
	want = &Matrix{Entries: map[string]*Entry{"x": {Sums: []float32{1, 2}, Counts: []float32{3}}}, Datasets: []string{"a", "b"}, Chunks: 1, ChunkSize: 512}
	if !reflect.DeepEqual(before, want) {
		t.Errorf("the copy is %+v, want %+v", before, want)
	}
	other.Entries["x"].Sums = []float32{1}
	if err := m.Merge(other); err == nil || !strings.Contains(err.Error(), "tensor x: 1 columns and 1 matrices, 2 and 1 before") {
		t.Errorf("a tensor of other columns: %v", err)
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
	for name, counts := range map[string][]int64{"other columns": {1, 2}, "other matrices": {3}} {
		sums := []float64{1, 2}
		if name == "other columns" {
			sums = []float64{1, 2, 3, 4}
		}
		if err := m.Add("all", sums, counts); err == nil {
			t.Errorf("%s than before were added", name)
		}
	}
	none, some := m.Unused()
	if !slices.Equal(none, []string{"none"}) || !slices.Equal(some, []string{"some"}) || len(m.Entries) != 2 {
		t.Errorf("%v unused, %v in part, %d are left", none, some, len(m.Entries))
	}
}

// The numbers of an importance matrix, by hand.
func TestStatistics(t *testing.T) {
	m := &Matrix{Entries: map[string]*Entry{
		"even":  {Sums: []float32{6, 6, 6, 6}, Counts: []float32{3}},
		"one":   {Sums: []float32{0, 8, 0, 0}, Counts: []float32{2}},
		"parts": {Sums: []float32{2, 6, 1e-6, 4}, Counts: []float32{2, 0}}, // the second was never used
		"also":  {Sums: []float32{8}, Counts: []float32{1}},
		"two":   {Sums: []float32{1, 1}, Counts: []float32{1}},
	}}
	list, err := m.Statistics()
	if err != nil {
		t.Fatal(err)
	}
	want := []Statistic{
		{Tensor: "also", Columns: 1, Sum: 8, Mean: 8, Max: 8, Active: 1},
		{Tensor: "even", Columns: 4, Sum: 8, Mean: 2, Max: 2, Active: 1, Entropy: 1},
		{Tensor: "parts", Columns: 4, Sum: 6, Mean: 1.5, Max: 3, SD: math.Sqrt(0.75), Active: 1},
		{Tensor: "one", Columns: 4, Sum: 4, Mean: 1, Max: 4, SD: math.Sqrt(3), Active: 0.25},
		{Tensor: "two", Columns: 2, Sum: 2, Mean: 1, Max: 1, Active: 1, Entropy: 1},
	}
	for _, p := range []float64{1, 3, 1, 1} {
		want[2].Entropy -= p / 6 * math.Log(p/6) / math.Log(4)
	}
	if len(list) != len(want) {
		t.Fatalf("%d tensors", len(list))
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	for i, got := range list {
		w := want[i]
		if got.Tensor != w.Tensor || got.Columns != w.Columns || !near(got.Sum, w.Sum) || !near(got.Mean, w.Mean) ||
			!near(got.Max, w.Max) || !near(got.SD, w.SD) || !near(got.Active, w.Active) || !near(got.Entropy, w.Entropy) {
			t.Errorf("%d: %+v, want %+v", i, got, w)
		}
	}
	m.Entries["bad"] = &Entry{Sums: []float32{-1}, Counts: []float32{1}}
	if _, err := m.Statistics(); err == nil {
		t.Error("a negative mean square is none")
	}
}
