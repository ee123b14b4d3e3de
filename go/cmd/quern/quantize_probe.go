package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A prober measures how much the errors of each tensor count: how far the predictions of a model are from those of the
// original when that tensor alone is rounded. It has a copy of the model, in which it rounds one tensor after the other.
type prober struct {
	target *quantizeTarget
	job    *quant.Job
	from   *quant.Allocation

	base   *contender
	device *engine.Device
	ids    []int32
	cut    eval.Chunks
	rows   []float32
}

func (p *prober) run(cmd *cobra.Command, in, out string) (err error) {
	text, err := readFile(p.target.file)
	if err != nil {
		return err
	}
	if p.base, err = unloaded(in, p.target.ctx, p.job.Threads); err != nil {
		return err
	}
	defer func() {
		p.base.close()
		if p.device != nil {
			p.device.Close()
		}
	}()
	tok := p.base.head.Tokenizer
	p.cut = eval.Chunks{Ctx: p.target.ctx, Max: max(p.target.chunks, 0), AddBOS: tok.AddBOS()}
	p.cut.BOS, _ = tok.BOS()
	p.ids = tok.Encode(text, tokenizer.Options{})
	if _, err := p.cut.Count(len(p.ids)); err != nil {
		return err // before the model is copied
	}
	nVocab := p.base.head.Config.NVocab
	if p.device, err = p.base.model.device().Open(); err != nil {
		return err
	}
	if err := p.base.open(cmd, p.device, p.ids); err != nil {
		return err
	}
	rows, err := p.device.Budget().Alloc("logits to compare", uint64(8*min(comparedRows, p.cut.Scored())*nVocab))
	if err != nil {
		return err
	}
	defer rows.Close()
	p.rows = mem.Float32s(rows.Bytes())
	path, err := p.copy(cmd.Context(), filepath.Dir(out))
	if err != nil {
		return err
	}
	defer os.Remove(path)
	return p.each(cmd, path)
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

// copy writes the model as it is into a new file.
func (p *prober) copy(ctx context.Context, dir string) (path string, err error) {
	whole := *p.job
	whole.Set = nil
	whole.Choices = append([]quant.Choice(nil), p.job.Choices...)
	for i := range whole.Choices {
		whole.Choices[i].To = whole.Choices[i].Type
	}
	f, err := os.CreateTemp(dir, ".quern-quantize-*.gguf")
	if err != nil {
		return "", err
	}
	_, err = whole.WriteShard(ctx, f, 0, 1)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// each measures all tensors that have a choice. Those in which no error is to be had keep their weight.
func (p *prober) each(cmd *cobra.Command, path string) error {
	places, err := offsets(path)
	if err != nil {
		return err
	}
	bar := newLoadBar(cmd.ErrOrStderr())
	defer bar.done()
	for i := range p.from.Tensors {
		x := &p.from.Tensors[i]
		bar.update(uint64(i), uint64(len(p.from.Tensors)))
		s := p.rounding(i)
		if s == nil {
			continue
		}
		kld, err := p.measure(cmd, path, s, places[s.Name])
		if err != nil {
			return fmt.Errorf("tensor %s as %v: %w", s.Name, s.To, err)
		}
		x.Weight = max(kld, math.SmallestNonzeroFloat64) / s.Error
	}
	return nil
}

// rounding returns the type to round the i-th tensor to: the one chosen when tensors count alike, or where that is the best,
// the next; nil for a tensor without a choice.
func (p *prober) rounding(i int) *quant.Sized {
	types := p.from.Tensors[i].Types
	at := len(types) - 1
	for at >= 0 && (types[at].Error == 0 || types[at].Bytes > p.from.Chosen(i).Bytes) {
		at--
	}
	if at < 0 {
		at = len(types) - 2
	}
	if at < 0 || types[at].Error == 0 {
		return nil
	}
	return &types[at]
}

// measure returns the mean divergence where one tensor, whose data is at offset, is rounded.
func (p *prober) measure(cmd *cobra.Command, path string, s *quant.Sized, offset uint64) (kld float64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := p.job.Round(cmd.Context(), io.NewOffsetWriter(f, int64(offset)), &s.Choice); err != nil {
		return 0, err
	}
	defer func() {
		_, e := f.WriteAt(s.Data, int64(offset))
		err = errors.Join(err, e)
	}()
	c, err := unloaded(path, p.target.ctx, p.job.Threads)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.open(cmd, p.device, p.ids); err != nil {
		return 0, err
	}
	models := []eval.Model{evaluated(c.eng)}
	got, err := eval.Compare(cmd.Context(), evaluated(p.base.eng), models, p.ids, p.cut, p.base.head.Config.NVocab, p.rows, func(*eval.Comparison) error { return nil })
	if err != nil {
		return 0, err
	}
	return got.Others[0].Summary().KLD.Value, nil
}

// offsets returns where the tensors of a file begin.
func offsets(path string) (map[string]uint64, error) {
	region, err := mem.Map(path)
	if err != nil {
		return nil, err
	}
	defer region.Close()
	f, err := gguf.Parse(region.Bytes())
	if err != nil {
		return nil, err
	}
	at := map[string]uint64{}
	for _, t := range f.Tensors {
		at[t.Name] = t.Offset
	}
	return at, nil
}
