package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/tokenizer"
)

// An original is the model that is quantized, loaded.
type original struct {
	*contender
	cmd    *cobra.Command
	device *engine.Device
}

// unloaded returns a model that is to be loaded.
func unloaded(path string, ctx, threads int) (*contender, error) {
	c := &contender{name: path, model: modelFlags{openFlags: openFlags{ctx: ctx}}}
	fs := pflag.NewFlagSet(path, pflag.ContinueOnError)
	c.model.define(fs)
	c.model.path, c.model.threads = path, threads
	var err error
	c.head, err = c.model.readHead()
	return c, err
}

// load loads the model on a device of its own, and has it read a little of a text.
func (o *original) load(ids []int32) (err error) {
	if o.device, err = o.model.device().Open(); err != nil {
		return err
	}
	return o.open(o.cmd, o.device, ids)
}

func (o *original) close() {
	o.contender.close()
	if o.device != nil {
		o.device.Close()
	}
}

// A divergence compares models with the original on a text. It implements quant.Evaluator.
type divergence struct {
	original
	ids  []int32
	cut  eval.Chunks
	room *mem.Region
}

// newDivergence loads the original in a file to compare others with it. The caller closes it.
func newDivergence(cmd *cobra.Command, in, text string, ctx, chunks, threads int) (_ *divergence, err error) {
	base, err := unloaded(in, ctx, threads)
	if err != nil {
		return nil, err
	}
	d := &divergence{original: original{contender: base, cmd: cmd}}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	tok := base.head.Tokenizer
	d.cut = eval.Chunks{Ctx: ctx, Max: max(chunks, 0), AddBOS: tok.AddBOS()}
	d.cut.BOS, _ = tok.BOS()
	d.ids = tok.Encode(text, tokenizer.Options{})
	if _, err := d.cut.Count(len(d.ids)); err != nil {
		return nil, err // before the model is copied
	}
	if err := d.load(d.ids); err != nil {
		return nil, err
	}
	rows := uint64(8 * min(comparedRows, d.cut.Scored()) * base.head.Config.NVocab)
	if d.room, err = d.device.Budget().Alloc("logits to compare", rows); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *divergence) close() {
	if d.room != nil {
		d.room.Close()
	}
	d.original.close()
}

// Diverge implements quant.Evaluator.
func (d *divergence) Diverge(ctx context.Context, path string) (float64, error) {
	c, err := unloaded(path, d.cut.Ctx, d.model.threads)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.open(d.cmd, d.device, d.ids); err != nil {
		return 0, err
	}
	models, rows := []eval.Model{evaluated(c.eng)}, mem.Float32s(d.room.Bytes())
	quiet := func(*eval.Comparison) error { return nil }
	got, err := eval.Compare(ctx, evaluated(d.eng), models, d.ids, d.cut, d.head.Config.NVocab, rows, quiet)
	if err != nil {
		return 0, err
	}
	return got.Others[0].Summary().KLD.Value, nil
}

// A textTap sums what the matrices of the original are multiplied by on a text. It implements quant.Tap.
type textTap struct {
	original
	text *chunkedText
}

// newTextTap loads the original in a file to read the text that a method names. The caller closes it.
func newTextTap(cmd *cobra.Command, m *quantizeMethod, in string, ctx, threads int) (_ *textTap, err error) {
	text, err := readFile(m.file)
	if err != nil {
		return nil, err
	}
	base, err := unloaded(in, ctx, threads)
	if err != nil {
		return nil, err
	}
	t := &textTap{original: original{contender: base, cmd: cmd}}
	if t.text, err = chunked(base.head.Tokenizer, text, ctx, 0, m.chunks, true); err != nil {
		err = fmt.Errorf("--calibration %s: %w", m.file, err)
	} else {
		err = t.load(t.text.ids)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// Products implements quant.Tap.
func (t *textTap) Products() (all []quant.Product) {
	at := map[*float64]int{}
	t.eng.Tap(true)
	defer t.eng.Tap(false)
	t.eng.Tapped(func(x model.Tapped) {
		i, ok := at[&x.Sums[0]]
		if !ok {
			i = len(all)
			at[&x.Sums[0]] = i
			all = append(all, quant.Product{Columns: len(x.Sums) / len(x.Counts), Matrices: len(x.Counts)})
		}
		all[i].Tensors = append(all[i].Tensors, x.Tensor)
	})
	return all
}

// Read implements quant.Tap.
func (t *textTap) Read(ctx context.Context, spans map[string]int, n, of int) (map[string]*quant.Hessian, error) {
	t.eng.Tap(true) // and what the reading before had is freed
	t.eng.TapProducts(func(tensor string) int { return spans[tensor] })
	w := t.cmd.ErrOrStderr()
	err := t.text.read(ctx, t.eng, func(chunks int) error {
		if isTerminal(w) {
			fmt.Fprintf(w, "\rcalibration, reading %d of %d: %d of %d chunks", n, of, chunks, t.text.chunks)
		}
		return nil
	})
	if isTerminal(w) {
		fmt.Fprintln(w)
	}
	if err != nil {
		return nil, err
	}
	all, byProducts := map[string]*quant.Hessian{}, map[*float32]*quant.Hessian{}
	t.eng.Tapped(func(x model.Tapped) {
		if spans[x.Tensor] == 0 || x.Products == nil || all[x.Tensor] != nil {
			return
		}
		h := byProducts[&x.Products[0]]
		if h == nil {
			h = &quant.Hessian{Columns: len(x.Sums) / len(x.Counts), Span: spans[x.Tensor], Products: x.Products}
			byProducts[&x.Products[0]] = h
		}
		all[x.Tensor] = h
	})
	return all, nil
}
