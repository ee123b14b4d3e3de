package quant

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// A Tap has a model read a text, and sums what its matrices are multiplied by.
type Tap interface {
	// Products returns what the model multiplies, in the order of use.
	Products() []Product
	// Read reads the text and returns the sums of products of columns of these tensors' inputs, within spans of so
	// many columns. Sums that it returned before are not used any more. It is the n-th reading of so many.
	Read(ctx context.Context, spans map[string]int, n, of int) (map[string]*Hessian, error)
}

// A Product is one operation: the matrices of tensors that are multiplied by the same.
type Product struct {
	Tensors           []string
	Columns, Matrices int
}

// A Calibration finds out what the inputs of a job's tensors are like, for GPTQ: some layers at a time, as many as
// the memory has sums for.
type Calibration struct {
	tap    Tap
	budget *mem.Budget
	memory uint64 // for sums

	products []*tapped
	groupOf  map[string]int // of a tensor
	groups   int
	at       int // the group whose sums there are, -1 for none
	reserved *mem.Reservation
	hessians map[string]*Hessian
}

// A tapped is a product whose inputs are summed.
type tapped struct {
	Product
	span, group int
}

func (p *tapped) layer() int { return LayerOf(p.Tensors[0]) }

// bytes returns what the sums of products take.
func (p *tapped) bytes() uint64 {
	return 4 * uint64(p.Matrices) * uint64(kernel.SpanFloats(p.Columns, p.span))
}

// NewCalibration plans how the inputs of a job's tensors are summed in so much memory of a budget.
func NewCalibration(job *Job, tap Tap, budget *mem.Budget, memory uint64) (*Calibration, error) {
	c := &Calibration{tap: tap, budget: budget, memory: memory, at: -1}
	c.find(job)
	return c, c.plan()
}

// Close gives the memory back.
func (c *Calibration) Close() {
	if c.reserved != nil {
		c.reserved.Release()
	}
}

// find finds the products whose tensors are encoded with errors made good.
func (c *Calibration) find(job *Job) {
	wanted := map[string]bool{}
	for _, choice := range job.Choices {
		wanted[choice.Name] = choice.To != choice.Type && Correctable(choice.To)
	}
	for _, product := range c.tap.Products() {
		p := &tapped{Product: product, span: min(product.Columns, mostSpan)}
		p.Tensors = nil
		for _, name := range product.Tensors {
			if wanted[name] {
				wanted[name] = false // where it is used again, that adds to the same sums
				p.Tensors = append(p.Tensors, name)
			}
		}
		if len(p.Tensors) > 0 {
			c.products = append(c.products, p)
		}
	}
	slices.SortStableFunc(c.products, func(a, b *tapped) int { return cmp.Compare(a.layer(), b.layer()) })
}

// Columns of a span: with the most, its factor takes 2 GiB while it is computed.
const leastSpan, mostSpan = 256, 1 << 14

// plan chooses spans and groups of layers so that the sums of a group fit into the memory. Spans are as wide as the
// sums of a layer allow.
func (c *Calibration) plan() error {
	c.groupOf = map[string]int{}
	var used uint64
	for rest := c.products; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].layer() == rest[0].layer() {
			n++
		}
		size, err := c.fit(rest[:n])
		if err != nil {
			return err
		}
		if used += size; used > c.memory {
			c.groups, used = c.groups+1, size
		}
		for _, p := range rest[:n] {
			p.group = c.groups
			for _, name := range p.Tensors {
				c.groupOf[name] = p.group
			}
		}
		rest = rest[n:]
	}
	c.groups++
	return nil
}

// fit halves the spans of a layer, the largest sums first, until they fit, and returns their size.
func (c *Calibration) fit(layer []*tapped) (uint64, error) {
	for {
		var size uint64
		var widest *tapped
		for _, p := range layer {
			size += p.bytes()
			if p.span > leastSpan && (widest == nil || p.bytes() > widest.bytes()) {
				widest = p
			}
		}
		if size <= c.memory {
			return size, nil
		}
		if widest == nil {
			return 0, fmt.Errorf("--calibration-memory %d is too little: the sums of a layer take at least %s",
				c.memory, mem.FormatBytes(size))
		}
		widest.span = (widest.span/2 + leastSpan - 1) / leastSpan * leastSpan
	}
}

// Hessian is Job's Hessian.
func (c *Calibration) Hessian(ctx context.Context, t *gguf.Tensor) (*Hessian, error) {
	group, ok := c.groupOf[t.Name]
	if !ok {
		return nil, nil
	}
	if group != c.at {
		if err := c.collect(ctx, group); err != nil {
			return nil, err
		}
	}
	return c.hessians[t.Name], nil
}

// collect has the text read for one group of layers.
func (c *Calibration) collect(ctx context.Context, group int) (err error) {
	c.at, c.hessians = -1, nil
	c.Close()
	spans, size := map[string]int{}, uint64(0)
	for _, p := range c.products {
		if p.group == group {
			size += p.bytes()
			for _, name := range p.Tensors {
				spans[name] = p.span
			}
		}
	}
	if c.reserved, err = c.budget.Reserve("products of columns", size); err != nil {
		return err
	}
	if c.hessians, err = c.tap.Read(ctx, spans, group+1, c.groups); err != nil {
		return err
	}
	c.at = group
	return nil
}
