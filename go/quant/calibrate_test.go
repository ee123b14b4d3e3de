package quant_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/quant"
)

// A madeTap answers with sums of the right size, and notes what it was asked for.
type madeTap struct {
	products []quant.Product
	reads    []map[string]int // spans
	parts    [][2]int         // which of how many
	err      error
}

func (m *madeTap) Products() []quant.Product { return m.products }

func (m *madeTap) Read(_ context.Context, spans map[string]int, n, of int) (map[string]*quant.Hessian, error) {
	m.parts = append(m.parts, [2]int{n, of})
	if m.reads = append(m.reads, spans); m.err != nil {
		return nil, m.err
	}
	all := map[string]*quant.Hessian{}
	for name, span := range spans {
		all[name] = &quant.Hessian{Span: span}
	}
	return all, nil
}

// A calibration reads the text once for as many layers as its memory has sums for, with spans that are narrower where
// not even a layer fits, and never holds more.
func TestCalibration(t *testing.T) {
	f := &gguf.File{}
	tap := &madeTap{}
	job := &quant.Job{}
	for _, layer := range []string{"0", "1", "2"} {
		var both []string
		for _, part := range []string{"attn_q", "attn_k"} {
			name := "blk." + layer + "." + part + ".weight"
			f.Tensors = append(f.Tensors, gguf.Tensor{Name: name, Type: gguf.F16, Dims: []uint64{1024, 64}})
			both = append(both, name)
		}
		tap.products = append(tap.products, quant.Product{Tensors: both, Columns: 1024, Matrices: 1})
	}
	for i := range f.Tensors {
		job.Choices = append(job.Choices, quant.Choice{Tensor: &f.Tensors[i], To: gguf.Q4_K})
	}
	// What is not quantized takes no memory.
	tap.products = append(tap.products, quant.Product{Tensors: []string{"blk.1.other.weight"}, Columns: 1 << 20, Matrices: 8})
	whole := 4 * uint64(kernel.SpanFloats(1024, 1024)) // of a layer
	for _, test := range []struct {
		memory uint64
		reads  int
		span   int
	}{
		{3 * whole, 1, 1024}, {2 * whole, 2, 1024}, {whole, 3, 1024}, {whole - 1, 3, 512}, {whole / 4, 3, 256},
	} {
		tap.reads, tap.parts = nil, nil
		budget := mem.NewBudget(test.memory, "the test's")
		c, err := quant.NewCalibration(job, tap, budget, test.memory)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Tensors {
			h, err := c.Hessian(t.Context(), &f.Tensors[i])
			if err != nil || h == nil || h.Span != test.span {
				t.Errorf("%d bytes: %s: %+v, %v, want a span of %d", test.memory, f.Tensors[i].Name, h, err, test.span)
			}
		}
		var read []string
		for _, spans := range tap.reads {
			read = slices.AppendSeq(read, maps.Keys(spans))
		}
		slices.Sort(read)
		if len(tap.reads) != test.reads || len(slices.Compact(read)) != len(f.Tensors) {
			t.Errorf("%d bytes: %d reads, want %d: %v", test.memory, len(tap.reads), test.reads, tap.reads)
		}
		if h, err := c.Hessian(t.Context(), &gguf.Tensor{Name: "other"}); h != nil || err != nil {
			t.Errorf("a tensor that stays as it is: %v, %v", h, err)
		}
		for i, part := range tap.parts {
			if part != [2]int{1 + i, test.reads} {
				t.Errorf("%d bytes: the reads are called %v", test.memory, tap.parts)
				break
			}
		}
		if c.Close(); budget.Used() != 0 {
			t.Errorf("%d bytes are in use at the end", budget.Used())
		}
	}
	_, err := quant.NewCalibration(job, tap, nil, 1000)
	if err == nil || !strings.Contains(err.Error(), "--calibration-memory 1000 is too little") {
		t.Errorf("1000 bytes: %v", err)
	}
	tap.err = errors.New("cannot be read")
	c, err := quant.NewCalibration(job, tap, mem.NewBudget(whole, "the test's"), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 { // and no sums of before are taken instead
		if h, err := c.Hessian(t.Context(), &f.Tensors[0]); h != nil || !errors.Is(err, tap.err) {
			t.Errorf("a text that cannot be read: %v, %v", h, err)
		}
	}
}
