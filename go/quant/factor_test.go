package quant

import (
	"context"
	"errors"
	"slices"
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
