package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A loss is how far the numbers that are written as a type are from those of the checkpoint.
type loss struct {
	tensors         int
	squares, errors float64 // sums over numbers that are not held exactly
}

// losses are those of quantized matrices, by the type that they are written as.
type losses map[gguf.Type]*loss

// begin counts a tensor. It returns its loss if that has to be measured, and otherwise nil.
func (l losses) begin(t *lang.Target) *loss {
	if !t.Quantized || len(t.Dims) < 2 {
		return nil
	}
	of := l[t.Type]
	if of == nil {
		of = &loss{}
		l[t.Type] = of
	}
	of.tensors++
	if h, ok := t.HeldAs(t.Type); t.Type == gguf.F32 || t.Read == nil || ok && h.Exact && t.Bytes != nil {
		return nil
	}
	return of
}

// measure returns the squares of numbers and of the errors of their codes, which are of rows of n numbers, or of a part of
// one.
func measure(t gguf.Type, numbers []float32, codes []byte, n int) (squares, errors float64, err error) {
	n = min(n, len(numbers))
	back, size := make([]float32, n), quant.RowBytes(t, n)
	for ; len(numbers) > 0; numbers, codes = numbers[n:], codes[size:] {
		if err := quant.Decode(t, back, codes[:size]); err != nil {
			return 0, 0, err
		}
		for i, x := range numbers[:n] {
			d := float64(x) - float64(back[i])
			squares += float64(x) * float64(x)
			errors += d * d
		}
	}
	return squares, errors, nil
}

// Loss says in a line what became of quantized matrices, once they are written; it is empty if there are none.
func (m *Model) Loss() string {
	var all []string
	for _, t := range slices.Sorted(maps.Keys(m.losses)) {
		l, how := m.losses[t], "without loss"
		if l.errors > 0 {
			how = fmt.Sprintf("with a relative error of %.2g", math.Sqrt(l.errors/l.squares))
		}
		all = append(all, fmt.Sprintf("%d as %s %s", l.tensors, t, how))
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("matrices quantized by %s: %s", m.quantized.Method, strings.Join(all, ", "))
}
