package quant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
)

// A Method is how the scales and codes of a type are found.
type Method int

const (
	Fast   Method = iota // as llama.cpp finds them: the same bytes
	Search               // together, for the least error that the importance of columns weighs
	GPTQ                 // the same, and each error is made good by the columns that follow it
)

var methods = []string{"fast", "search", "gptq"}

// Methods returns the names of all methods.
func Methods() []string { return slices.Clone(methods) }

// ParseMethod returns the method of a name.
func ParseMethod(s string) (Method, error) {
	if i := slices.Index(methods, s); i >= 0 {
		return Method(i), nil
	}
	return 0, fmt.Errorf("unknown method %q, want one of %s", s, strings.Join(methods, ", "))
}

// String returns the name of a method.
func (m Method) String() string { return methods[m] }

// Searched reports whether scales and codes of a type are found by Search. Others are encoded as by Fast.
func Searched(t gguf.Type) bool { return kernel.Searched(kernel.Type(t)) }

// Correctable reports whether GPTQ makes errors of a type good. Others are encoded as by Search.
func Correctable(t gguf.Type) bool { return kernel.Correctable(kernel.Type(t)) }

// A Hessian has what GPTQ knows of the inputs of a tensor's matrices: sums of the products of each two columns in the same
// span, which is the second derivative of the squared error of what the matrices make of them.
type Hessian struct {
	Columns, Span int       // both at least 1
	Products      []float32 // [matrix][kernel.SpanFloats]; factors of them from the first use on

	mu       sync.Mutex
	factored []bool // of the squares
	err      error
}

// damp is what is added to the diagonal of a Hessian, as a part of its mean: a text says little of directions in which its
// inputs do not vary.
const damp = 0.01

// workBytes is how much memory factoring takes at most, but for one span at a time.
const workBytes = 1 << 30

// factor factors the products on the given number of threads. If ctx ends first, the next call continues.
func (h *Hessian) factor(ctx context.Context, threads int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = h.factorAll(ctx, threads)
	}
	if h.err != nil {
		return h.err
	}
	return ctx.Err()
}

// factorAll factors the squares that are left. That ctx has ended is no error here.
func (h *Hessian) factorAll(ctx context.Context, threads int) error {
	each := kernel.SpanFloats(h.Columns, h.Span)
	if len(h.Products)%each != 0 {
		return fmt.Errorf("%d products of %d columns in spans of %d", len(h.Products), h.Columns, h.Span)
	}
	type square struct {
		of []float32
		n  int
	}
	var squares []square
	for rest := h.Products; len(rest) > 0; {
		for at := 0; at < h.Columns; at += h.Span {
			n := min(h.Span, h.Columns-at)
			squares = append(squares, square{rest[:n*n], n})
			rest = rest[n*n:]
		}
	}
	if h.factored == nil {
		h.factored = make([]bool, len(squares))
	}
	threads = max(1, min(threads, len(squares), workBytes/(8*h.Span*h.Span)))
	return panics.Each(threads, func(thread int) error {
		var work []float64
		for i := thread; i < len(squares) && ctx.Err() == nil; i += threads {
			if s := squares[i]; !h.factored[i] {
				if work == nil {
					work = make([]float64, h.Span*h.Span)
				}
				if err := factorOne(s.of, s.n, work[:s.n*s.n]); err != nil {
					return err
				}
				h.factored[i] = true
			}
		}
		return nil
	})
}

// factorOne damps more where products are so nearly dependent that rounding makes them indefinite.
func factorOne(h []float32, n int, work []float64) (err error) {
	for d := damp; d <= 1; d *= 10 {
		if err = kernel.Factor(kernel.CPU(), h, n, d, work); err == nil {
			return nil
		}
	}
	return fmt.Errorf("in the calibration text, its %w", err)
}

// of returns the factors of one matrix.
func (h *Hessian) of(matrix int) []float32 {
	each := kernel.SpanFloats(h.Columns, h.Span)
	return h.Products[matrix*each%len(h.Products):][:each]
}

// fits returns an error where a Hessian is not of the matrices of a tensor.
func (h *Hessian) fits(e *encoder) error {
	switch {
	case h.Columns != e.n:
		return fmt.Errorf("products of %d columns, the tensor has %d: was the text read by another model?", h.Columns, e.n)
	case len(h.Products) != kernel.SpanFloats(h.Columns, h.Span) && len(h.Products)/kernel.SpanFloats(h.Columns, h.Span) != e.rows/e.perMatrix:
		return fmt.Errorf("products of %d matrices, the tensor has %d", len(h.Products)/kernel.SpanFloats(h.Columns, h.Span), e.rows/e.perMatrix)
	}
	return nil
}

// unusedPart is what a column that a text never used counts, as a part of the mean: another text may.
const unusedPart = 1e-3

// floored returns importance without columns that count nothing, each matrix of n columns by its own mean.
func floored(importance []float32, n int) []float32 {
	v := slices.Clone(importance)
	for at := 0; at+n <= len(v); at += n {
		mean := 0.0
		for _, x := range v[at:][:n] {
			mean += float64(x) / float64(n)
		}
		least := float32(mean * unusedPart)
		if least == 0 {
			least = 1
		}
		for i, x := range v[at:][:n] {
			v[at+i] = max(x, least)
		}
	}
	return v
}

// rowsOf encodes rows of one matrix with the encoder's method.
func (e *encoder) rowsOf(matrix int, p *part, dst []byte, rows, importance []float32) error {
	t := kernel.Type(e.To)
	switch {
	case e.hessian != nil:
		p.scratch = kernel.CorrectedScratch(p.scratch, e.n, e.hessian.Span)
		return kernel.EncodeCorrected(kernel.CPU(), t, dst, rows, e.n, e.hessian.of(matrix), e.hessian.Span, p.scratch)
	case e.method != Fast:
		p.found = grow(p.found, len(dst))
		return kernel.EncodeSearch(kernel.CPU(), t, dst, rows, e.n, importance, p.found)
	}
	return kernel.Encode(kernel.CPU(), t, dst, rows, e.n, importance)
}
