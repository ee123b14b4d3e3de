// Package optest compares operations on tensors with their definitions, element by element, for tests.
package optest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// Made says what an operation makes: a tensor of a shape, whose element at row i and column j of matrix k is element
// Of(i, j, k) of what it was made of.
type Made = struct {
	Shape []uint64
	Of    func(i, j, k uint64) uint64
}

// A Case is an operation on a tensor, and the tensors that it should make. Like Made it is an alias, so that fields need no
// names in tables.
type Case = struct {
	Name string
	Do   lang.Op
	In   lang.View
	Want []Made
}

// Counted returns a tensor whose elements are their own numbers. Reading beyond its end is an error.
func Counted(shape ...uint64) lang.View {
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

// Read reads a tensor in pieces of n elements.
func Read(t *testing.T, v lang.View, n int) []float32 {
	t.Helper()
	out := make([]float32, v.Elems())
	for at := 0; at < len(out); at += n {
		if err := v.Read(out[at:min(at+n, len(out))], uint64(at)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Check does the operations and compares what they make, read in pieces of several sizes.
func Check(t *testing.T, c *hf.Config, cases []Case) {
	t.Helper()
	for _, x := range cases {
		out, err := x.Do(c, []lang.View{x.In})
		if err != nil || c.Err() != nil || len(out) != len(x.Want) {
			t.Errorf("%s: %d tensors, %v, %v", x.Name, len(out), err, c.Err())
			continue
		}
		for n, w := range x.Want {
			if !slices.Equal(out[n].Shape, w.Shape) {
				t.Errorf("%s: the shape %v, want %v", x.Name, out[n].Shape, w.Shape)
				continue
			}
			want := make([]float32, out[n].Elems())
			cols, rows := w.Shape[len(w.Shape)-1], uint64(1)
			if len(w.Shape) > 1 {
				rows = w.Shape[len(w.Shape)-2]
			}
			for e := range want {
				i, j := uint64(e)/cols, uint64(e)%cols
				want[e] = float32(w.Of(i%rows, j, i/rows))
			}
			for _, step := range []int{1, 2, 3, 5, 7, 1000} {
				if got := Read(t, out[n], step); !slices.Equal(got, want) {
					t.Errorf("%s, in pieces of %d: %v, want %v", x.Name, step, got, want)
				}
			}
		}
	}
}

// Refuses holds that operations on tensors of shapes that do not fit return an error, and do not panic.
func Refuses(t *testing.T, c *hf.Config, ops map[string]lang.Op) {
	t.Helper()
	for name, do := range ops {
		for _, v := range []lang.View{Counted(7), Counted(7, 5), Counted(1, 7, 5), Counted(0, 3)} {
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
