package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
)

// A quantizeMethod is how codes are found, and the text that GPTQ reads for it.
type quantizeMethod struct {
	name   string
	file   string
	chunks int
	memory uint64
	flags  *pflag.FlagSet
}

// calibrationMemory is what sums of products take at most by default.
const calibrationMemory = 4e9

func (m *quantizeMethod) define(fs *pflag.FlagSet) {
	m.flags = fs
	choiceVar(fs, &m.name, "method", "fast", quant.Methods(), "quantization method: fast is byte-identical to llama-quantize; search optimizes scales and codes together for a lower error; gptq also compensates errors between the columns of a row, and needs --calibration")
	fs.StringVar(&m.file, "calibration", "", "calibration `TEXT` for --method gptq, read in chunks of --ctx-size tokens")
	intVar(fs, &m.chunks, "calibration-chunks", "", 128, -1, 1<<30, "chunks of it to read; 0 or -1 is all")
	m.memory = calibrationMemory
	bytesVar(fs, &m.memory, "calibration-memory", "memory for the calibration sums, a `SIZE` such as 16G; with less, the text is read more often, or errors are compensated within fewer columns")
	fs.Lookup("calibration-memory").DefValue = "4G"
}

// method returns the method that was given.
func (m *quantizeMethod) method() quant.Method {
	method, _ := quant.ParseMethod(m.name)
	return method
}

// check refuses flags that contradict each other.
func (m *quantizeMethod) check() error {
	if m.method() == quant.GPTQ {
		if m.file == "" {
			return usagef("--method gptq reads a text of the kind that the model is for; give one with --calibration FILE")
		}
		return nil
	}
	for _, flag := range []string{"calibration", "calibration-chunks", "calibration-memory"} {
		if m.flags.Changed(flag) {
			return usagef("--%s: a text is read for --method gptq alone", flag)
		}
	}
	return nil
}

// A calibrator has the model read the text, and knows what its matrices were multiplied by: some layers at a time.
type calibrator struct {
	*quantizeMethod
	cmd    *cobra.Command
	base   *contender
	device *engine.Device
	text   *chunkedText

	products []*tappedProduct
	groupOf  map[string]int // of a tensor
	groups   int
	at       int // the group whose sums there are, -1 for none
	memory   *mem.Reservation
	hessians map[string]*quant.Hessian
}

// A tappedProduct is one operation: tensors that are multiplied by the same.
type tappedProduct struct {
	tensors           []string
	columns, matrices int
	span, group       int
}

func (p *tappedProduct) layer() int { return quant.LayerOf(p.tensors[0]) }

// bytes returns what the sums of products take.
func (p *tappedProduct) bytes() uint64 {
	return 4 * uint64(p.matrices) * uint64(kernel.SpanFloats(p.columns, p.span))
}

// calibrate opens the model for a job and has it answer which inputs its tensors have. The caller closes it.
func (m *quantizeMethod) calibrate(cmd *cobra.Command, job *quant.Job, in string, ctx int) (_ *calibrator, err error) {
	text, err := readFile(m.file)
	if err != nil {
		return nil, err
	}
	c := &calibrator{quantizeMethod: m, cmd: cmd, at: -1}
	if c.base, err = unloaded(in, ctx, job.Threads); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.text, err = chunked(c.base.head.Tokenizer, text, ctx, 0, m.chunks, true); err != nil {
		return nil, fmt.Errorf("--calibration %s: %w", m.file, err)
	}
	if c.device, err = c.base.model.device().Open(); err != nil {
		return nil, err
	}
	if err := c.base.open(cmd, c.device, c.text.ids); err != nil {
		return nil, err
	}
	c.find(job)
	if err := c.plan(); err != nil {
		return nil, err
	}
	job.Hessian = c.hessian
	job.Set = append(job.Set, gguf.KV{Key: "quantize.calibration.file", Value: m.file},
		gguf.KV{Key: "quantize.calibration.chunks_count", Value: uint32(c.text.chunks)})
	return c, nil
}

func (c *calibrator) close() {
	c.release()
	c.base.close()
	if c.device != nil {
		c.device.Close()
	}
}

func (c *calibrator) release() {
	if c.memory != nil {
		c.memory.Release()
	}
}

// find finds the products whose tensors are encoded with errors made good.
func (c *calibrator) find(job *quant.Job) {
	wanted := map[string]bool{}
	for _, choice := range job.Choices {
		wanted[choice.Name] = choice.To != choice.Type && quant.Searched(choice.To)
	}
	byInput := map[*float64]*tappedProduct{}
	c.base.eng.Tap(true)
	defer c.base.eng.Tap(false)
	c.base.eng.Tapped(func(t model.Tapped) {
		if !wanted[t.Tensor] {
			return
		}
		wanted[t.Tensor] = false // where it is used again, that adds to the same sums
		p := byInput[&t.Sums[0]]
		if p == nil {
			n := len(t.Sums) / len(t.Counts)
			p = &tappedProduct{columns: n, matrices: len(t.Counts), span: min(n, mostSpan)}
			byInput[&t.Sums[0]] = p
			c.products = append(c.products, p)
		}
		p.tensors = append(p.tensors, t.Tensor)
	})
	slices.SortStableFunc(c.products, func(a, b *tappedProduct) int { return cmp.Compare(a.layer(), b.layer()) })
}

// Columns of a span: with the most, its factor takes 2 GiB while it is computed.
const leastSpan, mostSpan = 256, 1 << 14

// plan chooses spans and groups of layers so that the sums of a group fit into the memory. Spans are as wide as the sums of
// a layer allow.
func (c *calibrator) plan() error {
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
		if used += size; used > c.quantizeMethod.memory {
			c.groups, used = c.groups+1, size
		}
		for _, p := range rest[:n] {
			p.group = c.groups
			for _, name := range p.tensors {
				c.groupOf[name] = p.group
			}
		}
		rest = rest[n:]
	}
	c.groups++
	return nil
}

// fit halves the spans of a layer, the largest sums first, until they fit, and returns their size.
func (c *calibrator) fit(layer []*tappedProduct) (uint64, error) {
	for {
		var size uint64
		var widest *tappedProduct
		for _, p := range layer {
			size += p.bytes()
			if p.span > leastSpan && (widest == nil || p.bytes() > widest.bytes()) {
				widest = p
			}
		}
		if size <= c.quantizeMethod.memory {
			return size, nil
		}
		if widest == nil {
			return 0, fmt.Errorf("--calibration-memory %d is too little: the sums of a layer take at least %s", c.quantizeMethod.memory, mem.FormatBytes(size))
		}
		widest.span = (widest.span/2 + leastSpan - 1) / leastSpan * leastSpan
	}
}

// hessian is quant.Job's Hessian.
func (c *calibrator) hessian(ctx context.Context, t *gguf.Tensor) (*quant.Hessian, error) {
	group, ok := c.groupOf[t.Name]
	if !ok {
		return nil, nil
	}
	if group != c.at {
		if err := c.collect(ctx, group); err != nil {
			return nil, fmt.Errorf("--calibration %s: %w", c.file, err)
		}
	}
	return c.hessians[t.Name], nil
}

// collect reads the text for one group of layers.
func (c *calibrator) collect(ctx context.Context, group int) (err error) {
	c.at, c.hessians = -1, map[string]*quant.Hessian{}
	c.release()
	spans, size := map[string]int{}, uint64(0)
	for _, p := range c.products {
		if p.group == group {
			size += p.bytes()
			for _, name := range p.tensors {
				spans[name] = p.span
			}
		}
	}
	if c.memory, err = c.device.Budget().Reserve("products of columns", size); err != nil {
		return err
	}
	eng := c.base.eng
	eng.Tap(true) // and what the group before had is freed
	eng.TapProducts(func(tensor string) int { return spans[tensor] })
	w := c.cmd.ErrOrStderr()
	err = c.text.read(ctx, eng, func(n int) error {
		if isTerminal(w) {
			fmt.Fprintf(w, "\rcalibration, reading %d of %d: %d of %d chunks", group+1, c.groups, n, c.text.chunks)
		}
		return nil
	})
	if isTerminal(w) {
		fmt.Fprintln(w)
	}
	if err != nil {
		return err
	}
	byProducts := map[*float32]*quant.Hessian{}
	eng.Tapped(func(t model.Tapped) {
		if spans[t.Tensor] == 0 || t.Products == nil || c.hessians[t.Tensor] != nil {
			return
		}
		h := byProducts[&t.Products[0]]
		if h == nil {
			h = &quant.Hessian{Columns: len(t.Sums) / len(t.Counts), Span: spans[t.Tensor], Products: t.Products}
			byProducts[&t.Products[0]] = h
		}
		c.hessians[t.Tensor] = h
	})
	c.at = group
	return nil
}
