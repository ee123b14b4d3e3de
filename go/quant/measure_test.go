package quant

import (
	"math"
	"regexp"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

func someRegexp(s string) *regexp.Regexp { return regexp.MustCompile(s) }

// whole is the error of a type by its definition, of all rows of a tensor of floats: each of its matrices with the
// importance of its own columns, or all of them with the same.
func whole(t *testing.T, x *gguf.Tensor, to gguf.Type, importance []float32) float64 {
	t.Helper()
	n, each := int(x.Dims[0]), int(x.Dims[1])
	weights := floats(x.Data)
	var spoiled, all float64
	for row := range len(weights) / n {
		v := weights[row*n:][:n]
		var columns []float32
		if importance != nil {
			columns = importance[row/each*n%len(importance):][:n]
		}
		code, back := make([]byte, RowBytes(to, n)), make([]float32, n)
		if err := Encode(to, code, v, n, columns); err != nil {
			t.Fatal(err)
		}
		if err := Decode(to, back, code); err != nil {
			t.Fatal(err)
		}
		for i := range v {
			c := 1.0
			if columns != nil {
				c = float64(columns[i])
			}
			spoiled += c * math.Pow(float64(v[i])-float64(back[i]), 2)
			all += c * math.Pow(float64(v[i]), 2)
		}
	}
	return spoiled / all
}

// The error of a type is that of all rows of small tensors, of one matrix or of several, and of large ones about that: their
// rows are taken from all over.
func TestLoss(t *testing.T) {
	importance := make([]float32, 3*256)
	for i := range importance {
		importance[i] = float32(1 + i*i%97)
	}
	for _, r := range []struct {
		name       string
		dims       []uint64
		importance []float32
		within     float64
	}{
		{"one matrix", []uint64{256, 300}, nil, 1e-9}, {"one matrix and importance", []uint64{256, 300}, importance[:256], 1e-9},
		{"experts", []uint64{256, 5, 3}, importance, 1e-9}, {"experts with one importance", []uint64{256, 5, 3}, importance[256:512], 1e-9},
		{"a large one", []uint64{256, 3000}, importance[:256], 0.1}, {"large experts", []uint64{256, 1000, 3}, importance, 0.1},
		{"many experts", []uint64{2048, 2, 300}, nil, 0.1},
	} {
		rows := 1
		for _, d := range r.dims[1:] {
			rows *= int(d)
		}
		x := &gguf.Tensor{Name: "x.weight", Type: gguf.F32, Dims: r.dims, Data: ramp(int(r.dims[0]), rows)}
		j := &Job{Threads: 1}
		if r.importance != nil {
			j.Importance = Importance{"x.weight": r.importance}
		}
		types := []Sized{{Choice: Choice{Tensor: x, To: gguf.Q4_0}}, {Choice: Choice{Tensor: x, To: gguf.F32}}}
		if len(r.importance) == 256 && len(r.dims) > 2 { // what one matrix has for all
			for i := range types {
				var err error
				if types[i].Error, err = newEncoder(&types[i].Choice, r.importance).loss(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		} else if err := j.measure(t.Context(), types); err != nil {
			t.Fatal(err)
		}
		for _, s := range types {
			want := 0.0
			if s.To != s.Type {
				want = whole(t, x, s.To, r.importance)
			}
			if math.Abs(s.Error-want) > r.within*want {
				t.Errorf("%s: %v has an error of %v, want %v", r.name, s.To, s.Error, want)
			}
		}
	}
	// Large tensors are not read as a whole: rows beyond the sample make no difference, and those of it are spread evenly.
	x := &gguf.Tensor{Name: "x.weight", Type: gguf.F32, Dims: []uint64{256, 4096}, Data: ramp(256, 4096)}
	weights := floats(x.Data)
	for i := range weights {
		if i/256%2 == 0 {
			weights[i] = 0
		}
	}
	x.Data = bytesOf(weights)
	c := &Choice{Tensor: x, To: gguf.Q4_0}
	if got, err := newEncoder(c, nil).loss(t.Context()); got != 0 || err != nil {
		t.Errorf("of twice as many rows as are sampled every second counts: %v, %v, want 0", got, err)
	}
}

// What stays as it is has no error, also where encoding it again would have one.
func TestLossOfTheSame(t *testing.T) {
	data := make([]byte, 4*RowBytes(gguf.Q3_K, 256))
	if err := Encode(gguf.Q3_K, data, floats(ramp(256, 4)), 256, nil); err != nil {
		t.Fatal(err)
	}
	x := &gguf.Tensor{Name: "x.weight", Type: gguf.Q3_K, Dims: []uint64{256, 4}, Data: data}
	types := []Sized{{Choice: Choice{Tensor: x, To: gguf.Q3_K}}, {Choice: Choice{Tensor: x, To: gguf.Q2_K}}}
	if err := (&Job{Threads: 1}).measure(t.Context(), types); err != nil || types[0].Error != 0 || types[1].Error == 0 {
		t.Errorf("%v, %v, %v", types[0].Error, types[1].Error, err)
	}
}

// A rounded tensor has the values that the type makes of it, in the type that it has.
func TestRound(t *testing.T) {
	x := &gguf.Tensor{Name: "x.weight", Type: gguf.F32, Dims: []uint64{64, 5000}, Data: ramp(64, 5000)}
	var out writes
	if err := (&Job{Threads: 3}).Round(t.Context(), &out, &Choice{Tensor: x, To: gguf.Q5_0}); err != nil {
		t.Fatal(err)
	}
	got, want := floats(out), floats(x.Data)
	if len(got) != len(want) {
		t.Fatalf("%d weights, want %d", len(got), len(want))
	}
	code, back := make([]byte, RowBytes(gguf.Q5_0, 64)), make([]float32, 64)
	for row := range 5000 {
		if err := Encode(gguf.Q5_0, code, want[row*64:][:64], 64, nil); err != nil {
			t.Fatal(err)
		}
		if err := Decode(gguf.Q5_0, back, code); err != nil {
			t.Fatal(err)
		}
		for i, v := range back {
			if got[row*64+i] != v {
				t.Fatalf("row %d, column %d: %v, want %v", row, i, got[row*64+i], v)
			}
		}
	}
}

type writes []byte

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
