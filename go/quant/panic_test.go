package quant

import (
	"errors"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
)

// A panic in one of the goroutines that encode a tensor, measure its types or factor what is known of its inputs is the
// error of the job.
func TestPanics(t *testing.T) {
	x := gguf.Tensor{Name: "x", Type: gguf.F32, Dims: []uint64{256, 8}, Data: make([]byte, 4)} // shorter than its rows
	c := Choice{Tensor: &x, To: gguf.Q8_0, Wanted: gguf.Q8_0}
	for what, f := range map[string]func() error{
		"encode":  func() error { return newEncoder(&c, nil).encode([]part{{rows: 4}, {at: 4, rows: 4}}) },
		"measure": func() error { return (&Job{Threads: 2}).measure(t.Context(), []Sized{{Choice: c}, {Choice: c}}) },
		"factor": func() error {
			h := &Hessian{Columns: 32, Span: 32, Products: make([]float32, 2*32*32), factored: make([]bool, 1)}
			return h.factor(t.Context(), 2)
		},
	} {
		if p := (*panics.Panic)(nil); !errors.As(f(), &p) {
			t.Errorf("%s: %v, want a panic", what, p)
		}
	}
}
