package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

// planOf returns what is trained.
func (f *finetuneFlags) planOf(cmd *cobra.Command, head *launch.Head, r *data.Renderer) (*finetune.Plan, error) {
	if f.target.model != "" {
		return f.planDrafts(cmd, head, r)
	}
	return f.plan(cmd, head, r)
}

// plan reads the examples, and divides them into steps.
func (f *finetuneFlags) plan(cmd *cobra.Command, head *launch.Head, r *data.Renderer) (*finetune.Plan, error) {
	learn, held, err := f.examples(data.Read)
	if err != nil {
		return nil, err
	}
	s := &f.settings
	if held.Len() > 0 && held.Kind() != learn.Kind() {
		return nil, fmt.Errorf("--val-data has %s, and --data %s", held.Kind(), learn.Kind())
	}
	if len(learn.Compared) > 0 {
		if f.objective != autoObjective {
			return nil, fmt.Errorf("--objective %s is of answers, and --data has %s", f.objective, learn.Kind())
		}
		return finetune.NewComparison(finetune.NewEncoder(head.Config, head.Tokenizer, head.Pair), learn.Compared, held.Compared, head.Config.NCtx, *s)
	}
	if err := f.renderAs(r, head, learn, cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	switch pairs := len(learn.Pairs) > 0; {
	case pairs && f.objective == "answers":
		return nil, errors.New("pairs of a better and a worse answer are learnt from by --objective dpo or orpo")
	case pairs && f.objective == autoObjective:
		s.Preference = finetune.DPO
	case f.objective == string(finetune.DPO) || f.objective == string(finetune.ORPO):
		s.Preference = finetune.Preference(f.objective)
	}
	f.usualRate(cmd.Flags())
	if len(learn.Pairs) > 0 {
		return finetune.NewPairPlan(r, learn.Pairs, held.Pairs, head.Config.NCtx, *s)
	}
	return finetune.NewPlan(r, learn.Examples, held.Examples, head.Config.NCtx, *s)
}

// examples reads the examples, and those that are held out, of which there may be none.
func (f *finetuneFlags) examples(read func([]string, data.Format) (*data.Set, error)) (learn, held *data.Set, err error) {
	if learn, f.known = f.known, nil; learn == nil {
		if learn, err = read(f.data, data.Format(f.format)); err != nil {
			return nil, nil, err
		}
	}
	held = &data.Set{}
	if len(f.held) > 0 {
		held, err = read(f.held, data.Format(f.format))
	}
	return learn, held, err
}

// renderAs has examples rendered as a model reads them.
func (f *finetuneFlags) renderAs(r *data.Renderer, head *launch.Head, learn *data.Set, stderr io.Writer) (err error) {
	var warning string
	r.Tokenizer = head.Tokenizer
	if r.Template, warning, err = head.Template(f.template.settings()); err == nil && learn.HasChats() && warning != "" {
		notes(stderr)(warning)
	}
	return err
}

// unused returns an error for a flag that would change nothing.
func unused(fs *pflag.FlagSet, p *finetune.Plan) error {
	_, contrast := p.Objective.(train.Contrast)
	for _, x := range []struct {
		name string
		used bool
		why  string
	}{
		{"beta", p.Settings.Preference != "", "is of pairs of a better and a worse answer, and --data has none"},
		{"temperature", contrast, "is of queries and texts that answer them, and --data has none for an embedding model"},
		{"compare", !p.Settings.OfModel() && p.Pooling == nn.PoolNone, "is of an adapter for a model that writes answers"},
	} {
		if fs.Changed(x.name) && !x.used {
			return usagef("--%s %s", x.name, x.why)
		}
	}
	return measures(fs, &p.Settings, p.Every > 0)
}

// measures returns an error for a flag about held-out examples where there are none.
func measures(fs *pflag.FlagSet, s *finetune.Settings, held bool) error {
	for _, x := range []struct {
		name string
		none bool // it asks for nothing
	}{{"eval-every", s.Every == 0}, {"compare", false}, {"patience", s.Patience == 0}} {
		if fs.Changed(x.name) && !x.none && !held {
			return usagef("--%s is of held-out examples, and there are none; give some with --val-data, or a greater share with --val-split", x.name)
		}
	}
	return nil
}
