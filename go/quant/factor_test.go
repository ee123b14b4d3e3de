package quant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
)

// Factoring ends with its context and goes on where it was: the factors are those of one go.
func TestFactorEnds(t *testing.T) {
	const n, span, matrices = 512, 256, 3
	products := func() *Hessian {
		h := &Hessian{Columns: n, Span: span, Products: make([]float32, matrices*kernel.SpanFloats(n, span))}
		for i := range h.Products {
			if i%(span*span)%(span+1) == 0 {
				h.Products[i] = float32(4 + i%7)
			} else {
				h.Products[i] = float32(i%5) / span
			}
		}
		return h
	}
	want := products()
	if err := want.factor(context.Background(), 2); err != nil {
		t.Fatal(err)
	}
	for squares := range 2 * matrices {
		ctx := &endingContext{Context: context.Background(), left: squares}
		h := products()
		if err := h.factor(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("ended after %d squares: %v", squares, err)
		}
		done := 0
		for _, is := range h.factored {
			if is {
				done++
			}
		}
		if done != squares {
			t.Errorf("ended after %d squares, %d are factored", squares, done)
		}
		if err := h.factor(context.Background(), 2); err != nil || !slices.Equal(h.Products, want.Products) {
			t.Errorf("ended after %d squares, then again: %v, or other factors", squares, err)
		}
	}
}

// What is not the products of whole matrices is refused, and so are inputs that no text has, again each time; products that
// rounding made indefinite are damped more.
func TestFactorRefuses(t *testing.T) {
	for name, h := range map[string]*Hessian{
		"no matrix and a half":     {Columns: 32, Span: 32, Products: make([]float32, 32*32*3/2)},
		"a span more than columns": {Columns: 64, Span: 32, Products: make([]float32, 3*32*32)},
	} {
		if err := h.factor(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "in spans of 32") {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := &Hessian{Columns: 2, Span: 2, Products: []float32{1, 1000, 0, 1}}
	err := h.factor(t.Context(), 1)
	if !errors.Is(err, kernel.ErrIndefinite) || !strings.HasPrefix(err.Error(), "in the calibration text, its ") {
		t.Errorf("products that no inputs have: %v", err)
	}
	if h.Products = []float32{1, 0, 0, 1}; h.factor(t.Context(), 1) != err {
		t.Error("an error is no error the second time")
	}
	if err := (&Hessian{Columns: 2, Span: 2, Products: []float32{1, 1.5, 0, 1}}).factor(t.Context(), 1); err != nil {
		t.Errorf("products that are made definite by adding their mean: %v", err) // and not by a tenth of it
	}
}

// The factors of a matrix are its own, or those of the only one.
func TestFactorsOf(t *testing.T) {
	products := func(matrices int) *Hessian {
		h := &Hessian{Columns: 5, Span: 2, Products: make([]float32, matrices*9)} // squares of 2, 2 and 1
		for i := range h.Products {
			h.Products[i] = float32(i)
		}
		return h
	}
	for _, r := range []struct {
		matrices, matrix int
		first            float32
	}{{1, 0, 0}, {1, 3, 0}, {3, 0, 0}, {3, 2, 18}} {
		if got := products(r.matrices).of(r.matrix); len(got) != 9 || got[0] != r.first {
			t.Errorf("matrix %d of %d: %v", r.matrix, r.matrices, got)
		}
	}
	for _, r := range []struct {
		matrices, columns int
		want              string
	}{
		{1, 5, ""}, {4, 5, ""}, {3, 5, "products of 3 matrices, the tensor has 4"}, {4, 6, "products of 5 columns, the tensor has 6: was the text read by another model?"},
	} {
		err := products(r.matrices).fits(&encoder{n: r.columns, rows: 28, perMatrix: 7})
		if (err == nil) != (r.want == "") || err != nil && err.Error() != r.want {
			t.Errorf("%d matrices, %d columns: %v, want %q", r.matrices, r.columns, err, r.want)
		}
	}
}

// An endingContext ends when it was asked so many times.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
