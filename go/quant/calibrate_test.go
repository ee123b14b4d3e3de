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

// Tensors that are not searched take no memory; those of one product, or used by two, are read together. Layers are read in
// their order, and where the sums of one do not fit, the largest are made narrower first.
func TestCalibrationPlans(t *testing.T) {
	tap := &madeTap{}
	job := &quant.Job{}
	add := func(name string, columns, matrices int, to gguf.Type) {
		x := &gguf.Tensor{Name: name, Type: gguf.F16, Dims: []uint64{uint64(columns), 64}}
		job.Choices = append(job.Choices, quant.Choice{Tensor: x, To: to})
		tap.products = append(tap.products, quant.Product{Tensors: []string{name}, Columns: columns, Matrices: matrices})
	}
	add("blk.1.a.weight", 1280, 1, gguf.Q4_K)
	add("blk.0.a.weight", 512, 2, gguf.Q4_K)
	add("blk.1.b.weight", 1024, 1, gguf.Q4_K)
	add("blk.0.stays.weight", 8192, 1, gguf.F16)
	add("blk.0.bf16.weight", 8192, 1, gguf.BF16) // without a choice of codes
	tap.products = append(tap.products, quant.Product{Tensors: []string{"blk.0.a.weight"}, Columns: 8192, Matrices: 1})
	bytes := func(n, span, matrices int) uint64 { return 4 * uint64(matrices*kernel.SpanFloats(n, span)) }
	for _, r := range []struct {
		memory uint64
		reads  []map[string]int
	}{
		{bytes(512, 512, 2) + bytes(1280, 1280, 1) + bytes(1024, 1024, 1), []map[string]int{{"blk.0.a.weight": 512, "blk.1.a.weight": 1280, "blk.1.b.weight": 1024}}},
		{bytes(1280, 1280, 1) + bytes(1024, 1024, 1), []map[string]int{{"blk.0.a.weight": 512}, {"blk.1.a.weight": 1280, "blk.1.b.weight": 1024}}},
		{bytes(1280, 768, 1) + bytes(1024, 1024, 1), []map[string]int{{"blk.0.a.weight": 512}, {"blk.1.a.weight": 768, "blk.1.b.weight": 1024}}},
		{bytes(1280, 768, 1) + bytes(1024, 512, 1), []map[string]int{{"blk.0.a.weight": 512}, {"blk.1.a.weight": 768, "blk.1.b.weight": 512}}},
		{bytes(1280, 256, 1) + bytes(1024, 256, 1), []map[string]int{{"blk.0.a.weight": 512}, {"blk.1.a.weight": 256, "blk.1.b.weight": 256}}},
	} {
		tap.reads = nil
		budget := mem.NewBudget(r.memory, "the test's")
		c, err := quant.NewCalibration(job, tap, budget, r.memory)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"blk.0.a.weight", "blk.1.a.weight", "blk.1.b.weight"} {
			if h, err := c.Hessian(t.Context(), &gguf.Tensor{Name: name}); h == nil || err != nil {
				t.Errorf("%s: %v, %v", name, h, err)
			}
		}
		used := uint64(0)
		for name, span := range r.reads[len(r.reads)-1] {
			n, matrices := map[string]int{"blk.0.a.weight": 512, "blk.1.a.weight": 1280, "blk.1.b.weight": 1024}[name], 1
			if name == "blk.0.a.weight" {
				matrices = 2
			}
			used += bytes(n, span, matrices)
		}
		if !slices.EqualFunc(tap.reads, r.reads, maps.Equal) || budget.Used() != used {
			t.Errorf("%d bytes: %v, %d bytes used, want %v, %d", r.memory, tap.reads, budget.Used(), r.reads, used)
		}
		c.Close()
	}
	const least = 4 * (5 + 4) * 256 * 256
	if _, err := quant.NewCalibration(job, tap, nil, least-1); err == nil || !strings.Contains(err.Error(), "the sums of a layer take at least 2.4 MB") {
		t.Errorf("a byte less than the narrowest spans take: %v", err)
	}
	c, err := quant.NewCalibration(job, tap, mem.NewBudget(least-1, "the test's"), least)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Hessian(t.Context(), &gguf.Tensor{Name: "blk.1.a.weight"}); err == nil || !strings.Contains(err.Error(), "products of columns") {
		t.Errorf("a budget of a byte less: %v", err)
	}
	// Very wide ones have spans of 16384 at most, and no memory that nothing takes.
	tap.products, tap.reads = tap.products[:1], nil
	tap.products[0].Columns = 40000
	if c, err = quant.NewCalibration(job, tap, mem.NewBudget(1<<40, "the test's"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if h, err := c.Hessian(t.Context(), &gguf.Tensor{Name: "blk.1.a.weight"}); err != nil || h.Span != 16384 {
		t.Errorf("40000 columns in spans of %+v, %v", h, err)
	}
	c.Close()
}
