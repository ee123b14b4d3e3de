package quant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
)

// An Evaluator runs models on a text.
type Evaluator interface {
	// Diverge returns how far the predictions of the model in the file at path are from those of the original: the
	// mean Kullback-Leibler divergence.
	Diverge(ctx context.Context, path string) (float64, error)
}

// A Probe measures how much the errors of each tensor count: how far the predictions of a model are from those of
// the original when that tensor alone is rounded. It has a copy of the model, in which it rounds one tensor after
// the other.
type Probe struct {
	Job       *Job
	From      *Allocation // whose tensors get their weights
	Evaluator Evaluator
	Progress  func(done, total uint64) // tensors measured; nil: silent
}

// Run measures all tensors that have a choice. Those in which no error is to be had keep their weight. The copy is
// in dir meanwhile.
func (p *Probe) Run(ctx context.Context, dir string) error {
	path, err := p.copy(ctx, dir)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	places, err := offsets(path)
	if err != nil {
		return err
	}
	for i := range p.From.Tensors {
		x := &p.From.Tensors[i]
		if p.Progress != nil {
			p.Progress(uint64(i), uint64(len(p.From.Tensors)))
		}
		s := p.rounding(i)
		if s == nil {
			continue
		}
		kld, err := p.measure(ctx, path, s, places[s.Name])
		if err != nil {
			return fmt.Errorf("tensor %s as %v: %w", s.Name, s.To, err)
		}
		x.Weight = max(kld, math.SmallestNonzeroFloat64) / s.Error
	}
	return nil
}

// copy writes the model as it is into a new file.
func (p *Probe) copy(ctx context.Context, dir string) (path string, err error) {
	whole := *p.Job
	whole.Set = nil
	whole.Choices = append([]Choice(nil), p.Job.Choices...)
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

// rounding returns the type to round the i-th tensor to: the one chosen when tensors count alike, or where that rounds
// nothing, the next smaller; nil for a tensor without a choice.
func (p *Probe) rounding(i int) *Sized {
	types := p.From.Tensors[i].Types
	at := len(types) - 1
	for at >= 0 && (types[at].Error == 0 || types[at].Bytes > p.From.Chosen(i).Bytes) {
		at--
	}
	if at < 0 {
		return nil
	}
	return &types[at]
}

// measure returns the divergence where one tensor, whose data is at offset, is rounded.
func (p *Probe) measure(ctx context.Context, path string, s *Sized, offset uint64) (kld float64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := p.Job.Round(ctx, io.NewOffsetWriter(f, int64(offset)), &s.Choice); err != nil {
		return 0, err
	}
	defer func() {
		_, e := f.WriteAt(s.Data, int64(offset))
		err = errors.Join(err, e)
	}()
	return p.Evaluator.Diverge(ctx, path)
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
