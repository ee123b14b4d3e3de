package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/distil"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/train/data"
)

// targetFlags are the flags about the model for which another, or a head, is trained to draft.
type targetFlags struct {
	draftFlags         // of which model is TARGET; empty: there is none
	head       string  // the kind of head that is trained for -m, which is TARGET then; empty: a model is
	vocab      int     // tokens that it guesses among
	own        bool    // the answers in the examples are its own
	tokens     int     // of an answer, at most
	temp       float64 // of its answers
}

// headKinds are the words of --draft-head.
var headKinds = []string{model.HeadArch}

// draftFlagsOnly are those that go with --draft-for, or --draft-head.
var draftFlagsOnly = []string{"own-answers", "answer-tokens", "answer-temp"}

func (f *targetFlags) define(fs *pflag.FlagSet, hub *hubFlags) {
	fs.Var(&draftValue{&f.draftFlags, hub}, "draft-for", "train the model to draft for TARGET, a GGUF `FILE` or a name as -m has it, whose answers to the examples' prompts are learnt; OUT is a model")
	choiceVar(fs, &f.head, "draft-head", "", headKinds, "train a new head that drafts for the model, whose own answers to the examples' prompts are learnt, in place of an adapter; OUT is the head")
	intVar(fs, &f.vocab, "draft-vocab", "", 32_000, kernel.Panel, nn.MaxVocab, "tokens that the head guesses among, at most: those that answers have most often")
	fs.BoolVar(&f.own, "own-answers", false, "the answers in the examples are TARGET's own, such as those of serve --keep-answers, of one model alone; it writes none")
	intVar(fs, &f.tokens, "answer-tokens", "", 256, 1, 1<<20, "tokens of an answer of TARGET, at most")
	floatVar(fs, &f.temp, "answer-temp", 0, 0, 100, "temperature of TARGET's answers; 0 is the likeliest tokens")
}

// check validates the flags, together with those of the command.
func (f *targetFlags) check(all *finetuneFlags, fs *pflag.FlagSet) error {
	if f.head == "" && fs.Changed("draft-vocab") {
		return usagef("--draft-vocab goes with --draft-head")
	}
	if f.head != "" {
		switch {
		case f.model != "":
			return usagef("--draft-head trains a head for the model of -m, and --draft-for has that model draft for another; give one of them")
		case all.settings.Weights != "":
			return usagef("--full: all weights of a head are trained anyway, and the model's stay; leave out --full or --draft-head")
		}
		f.model, all.settings.Head, all.settings.HeadTokens = all.model, true, f.vocab
	}
	if f.model == "" {
		for _, name := range draftFlagsOnly {
			if fs.Changed(name) {
				return usagef("--%s goes with --draft-for, or --draft-head", name)
			}
		}
		return nil
	}
	switch {
	case all.isPEFT():
		return usagef("%s: OUT is a model; give a FILE.gguf with -o", f.flag())
	case all.ranks != "":
		return usagef("--ranks: what drafts is trained by one process; leave out --ranks or %s", f.flag())
	case all.objective != autoObjective && all.objective != "answers":
		return usagef("--objective %s: with %s answers are learnt", all.objective, f.flag())
	case fs.Changed("beta") || fs.Changed("temperature"):
		return usagef("--beta is of pairs of answers, --temperature of texts that are compared, and with %s answers are learnt; leave them out", f.flag())
	case fs.Changed("compare"):
		return usagef("--compare is of adapters, and of what drafts it is measured how many drafts are accepted")
	case all.dryRun && !f.own:
		return usagef("--dry-run: what is learnt are the answers of %s, which are yet to be written; it goes with --own-answers", f.flag())
	case f.own && (fs.Changed("answer-tokens") || fs.Changed("answer-temp")):
		return usagef("--own-answers: the examples have the answers; leave --answer-tokens and --answer-temp out")
	}
	return nil
}

// flag is the flag that has drafts learnt.
func (f *targetFlags) flag() string {
	if f.head != "" {
		return "--draft-head"
	}
	return "--draft-for"
}

// source is what drafts are of.
func (f *targetFlags) source() draft.Source {
	if f.head != "" {
		return draft.Head
	}
	return draft.Model
}

// answers is the file with the answers that there are.
func (f *targetFlags) answers(all *finetuneFlags) string {
	return filepath.Clean(all.out) + ".answers.json"
}

// outputs are files beside OUT until the run has ended.
func (f *targetFlags) outputs(all *finetuneFlags) []string {
	if f.model == "" || f.own || all.out == "" {
		return nil
	}
	return []string{f.answers(all)}
}

// begun returns when answers were begun that a run goes on from, of which there is no more yet.
func (f *targetFlags) begun(all *finetuneFlags) (time.Time, bool) {
	if _, err := os.Stat(all.checkpoint()); err == nil {
		return time.Time{}, false
	}
	for _, path := range f.outputs(all) {
		if a, err := distil.ReadAnswers(path); err == nil {
			return a.Now, true
		}
	}
	return time.Time{}, false
}

// openTarget opens TARGET, for which a model or a head in a file drafts, or nothing.
func (f *finetuneFlags) openTarget(drafts string) (*launch.Head, error) {
	s := launch.Settings{
		Ctx: f.settings.Context, Sequences: distil.Streams, NoProjector: true,
		Draft: launch.Draft{Sources: draft.Set(1 << f.target.source()), Path: drafts},
	}
	if f.target.head != "" { // TARGET is the model of -m
		s.Overrides = f.set
	}
	return f.files.ReadHead(f.target.model, s)
}

// planDrafts is plan for a model that is to draft for TARGET. It also measures how the model drafts now.
func (f *finetuneFlags) planDrafts(cmd *cobra.Command, head *launch.Head, r *data.Renderer) (*finetune.Plan, error) {
	drafts := f.model
	if f.target.head != "" {
		drafts = "" // there is no head yet
	}
	target, err := f.openTarget(drafts)
	if err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened {
			target.Close()
		}
	}()
	if err := f.suits(head, target); err != nil {
		return nil, err
	}
	if f.settings.Context == 0 {
		f.settings.Context = min(finetune.DefaultContext, cmp.Or(head.Config.NCtx, finetune.DefaultContext), cmp.Or(target.Config.NCtx, finetune.DefaultContext))
	}
	target.Settings.Ctx = f.settings.Context
	read := data.ReadPrompts
	if f.target.own {
		read = data.Read
	}
	learn, held, err := f.examples(read)
	if err != nil {
		return nil, err
	}
	for _, s := range []*data.Set{learn, held} {
		if s.Len() > len(s.Examples) {
			return nil, fmt.Errorf("%s: drafts are learnt from prompts or answers, and these are %s", f.target.flag(), s.Kind())
		}
	}
	if f.target.own {
		if err := ownAnswers(slices.Concat(learn.Examples, held.Examples), target); err != nil {
			return nil, err
		}
	}
	if err := f.renderAs(r, target, learn, cmd.ErrOrStderr()); err != nil {
		return nil, err
	}
	var plan *finetune.Plan
	var asked prompted
	if f.target.own {
		plan, err = finetune.NewPlan(r, learn.Examples, held.Examples, head.Config.NCtx, f.settings)
	} else {
		if asked, err = f.ask(r, learn.Examples, held.Examples); err == nil {
			err = measures(cmd.Flags(), &f.settings, asked.learnt < len(asked.all))
		}
	}
	if err != nil || f.dryRun {
		return plan, err
	}
	var m *launch.Model
	if plan == nil || f.target.head == "" { // it answers, or is measured
		m, err = f.device.open(target, cmd.ErrOrStderr())
		opened = true // or closed
		if err != nil {
			return nil, err
		}
		defer m.Close()
	}
	if plan == nil {
		if plan, err = f.answer(cmd, m, asked, r.Now, head.Config.NCtx); err != nil {
			return nil, err
		}
	}
	for _, x := range slices.Concat(plan.Texts, plan.Held) {
		if id := slices.Max(x.Tokens); int(id) >= head.Config.NVocab {
			return nil, fmt.Errorf("%s: an answer of %s has token %d, and its vocabulary has %d tokens", f.model, f.target.model, id, head.Config.NVocab)
		}
	}
	if f.target.head != "" { // see headBefore
		return plan, nil
	}
	f.without, err = f.measureDrafts(cmd.Context(), m, plan)
	if err == nil && f.without != nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "drafts before: %s\n", f.without)
	}
	return plan, err
}

// ownAnswers returns an error for answers that a server kept of several models, or of another than TARGET by its vocabulary.
func ownAnswers(all []data.Example, target *launch.Head) error {
	var first *data.Example
	for i := range all {
		x := &all[i]
		switch {
		case x.Kept == nil:
			continue
		case x.Kept.Vocabulary != target.Tokenizer.Hash():
			return fmt.Errorf("%s: --own-answers: the answer of %q, which has another vocabulary than %s", x.Where, x.Kept.Model, target.Path)
		case first == nil:
			first = x
		case x.Kept.Model != first.Kept.Model:
			return fmt.Errorf("%s: --own-answers: the answer of %q, and %s is of %q; give those of one model", x.Where, x.Kept.Model, first.Where, first.Kept.Model)
		}
	}
	return nil
}

// suits returns an error for a model that cannot learn from TARGET.
func (f *finetuneFlags) suits(head, target *launch.Head) error {
	if f.out != "" {
		if err := checkOutputs(f.written(), target.File.Paths); err != nil {
			return err
		}
	}
	if target.Config.OnePass() {
		return fmt.Errorf("%s: it reads whole texts and writes none, so nothing can draft for it", f.target.model)
	}
	if f.target.head != "" {
		if err := model.CanHaveHead(target.File); err != nil {
			return fmt.Errorf("%s: %w", f.target.model, err)
		}
	}
	if err := launch.SameVocabulary(head.Tokenizer, target.Tokenizer); err != nil {
		return fmt.Errorf("%s cannot learn the tokens of %s: %w; want models of one vocabulary", f.model, f.target.model, err)
	}
	if n := target.Config.NCtx; n > 0 && f.settings.Context > n {
		return fmt.Errorf("-c %d: %s was made for %d tokens at most", f.settings.Context, f.target.model, n)
	}
	return nil
}

// prompted are prompts, those that are held out behind the others.
type prompted struct {
	all     [][]int32
	learnt  int // of them
	skipped int // that are too long, which are not there
	longAt  string
}

// ask returns the prompts of examples, without those that leave no room for an answer.
func (f *finetuneFlags) ask(r *data.Renderer, learn, held []data.Example) (p prompted, err error) {
	if len(held) == 0 {
		learn, held = data.Split(learn, f.settings.Share)
	}
	for part, examples := range [][]data.Example{learn, held} {
		for i := range examples {
			prompts, err := r.Prompts(examples[i : i+1])
			if err != nil {
				return p, err
			}
			for _, ids := range prompts {
				switch {
				case len(ids) == 0:
					return p, fmt.Errorf("%s: an empty prompt", examples[i].Where)
				case len(ids) < f.settings.Context:
					p.all = append(p.all, ids)
					continue
				case f.settings.Long == data.Refuse:
					return p, fmt.Errorf("%s: a prompt of %d tokens, and a text has at most %d", examples[i].Where, len(ids), f.settings.Context)
				}
				p.skipped, p.longAt = p.skipped+1, cmp.Or(p.longAt, examples[i].Where)
			}
		}
		if part == 0 {
			p.learnt = len(p.all)
		}
	}
	if p.learnt == 0 {
		return p, errors.New("no example has a prompt that can be answered within -c tokens")
	}
	return p, nil
}

// question is how TARGET answers.
func (f *finetuneFlags) question(target *launch.Head) *distil.Question {
	return &distil.Question{MaxTokens: f.target.tokens, Context: f.settings.Context, Temp: f.target.temp, Seed: uint64(f.seed), Stop: target.Tokenizer.IsEOG}
}

// answer has TARGET answer prompts, but for those that it answered before the run was interrupted.
func (f *finetuneFlags) answer(cmd *cobra.Command, m *launch.Model, p prompted, now time.Time, longest int) (*finetune.Plan, error) {
	q := f.question(m.Head)
	path := f.target.answers(f)
	a := &distil.Answers{Now: now, Of: q.Of(m.Head.File.Identity(), p.all), List: make([][]int32, len(p.all))}
	if f.resume {
		before, err := distil.ReadAnswers(path)
		if err == nil {
			if err := before.Fits(a.Of, len(p.all), m.Head.Config.NVocab); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			a = before
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if p.skipped > 0 {
		notes(cmd.ErrOrStderr())(fmt.Sprintf("%s are as long as -c and left out (the first: %s)", count(p.skipped, "prompt"), p.longAt))
	}
	begun, saved, had := time.Now(), time.Now(), a.Done()
	bar := newBar(cmd.ErrOrStderr(), "answering")
	err := q.Answer(cmd.Context(), m.Engine, p.all, a.List, func() error {
		bar.update(uint64(a.Done()), uint64(len(p.all)))
		if time.Since(saved) < time.Minute {
			return nil
		}
		saved = time.Now()
		return a.Save(path)
	})
	bar.done()
	if n := a.Done(); err != nil {
		if n == 0 {
			return nil, err
		}
		if saveErr := a.Save(path); saveErr != nil {
			return nil, errors.Join(err, saveErr)
		}
		if errors.Is(err, context.Canceled) {
			notes(cmd.ErrOrStderr())(fmt.Sprintf("saved %d of %s to %s; the same command with --resume goes on", n, count(len(p.all), "answer"), visible(path)))
		}
		return nil, err
	}
	if err := a.Save(path); err != nil {
		return nil, err
	}
	texts, counts := data.Answered(p.all[:p.learnt], a.List[:p.learnt])
	held, heldCounts := data.Answered(p.all[p.learnt:], a.List[p.learnt:])
	tokens := 0
	for _, ids := range a.List {
		tokens += len(ids)
	}
	line := fmt.Sprintf("answers of %s: %d, %s", m.Head.Path, len(a.List), count(tokens, "token"))
	if n := len(a.List) - had; n > 0 {
		line += fmt.Sprintf("; %d written in %s", n, roughly(time.Since(begun)))
	}
	fmt.Fprintln(cmd.OutOrStdout(), line)
	return finetune.NewTextPlan(texts, held, counts, heldCounts, longest, f.settings)
}

// drafting is how a draft model does for TARGET on texts that are held out.
type drafting struct {
	distil.Acceptance
	distil.Speed
	texts int
	timed bool // the speed was measured
}

// Texts that are measured at most.
const mostDrafted, mostTimed = 256, 12

// measureDrafts measures the draft model that a model was opened with; nil: nothing is held out.
func (f *finetuneFlags) measureDrafts(ctx context.Context, m *launch.Model, p *finetune.Plan) (*drafting, error) {
	texts := p.Held[:min(len(p.Held), mostDrafted)]
	if len(texts) == 0 {
		return nil, nil
	}
	d := &drafting{texts: len(texts)}
	var err error
	if d.Acceptance, err = distil.Accepted(ctx, m.Drafts, texts); err != nil {
		return nil, err
	}
	return d, f.timeDrafts(ctx, m, d, texts)
}

// timeDrafts measures how much faster answers are.
func (f *finetuneFlags) timeDrafts(ctx context.Context, m *launch.Model, d *drafting, texts []model.Text) (err error) {
	d.timed = true
	d.Speed, err = f.question(m.Head).Measure(ctx, m.Engine, f.target.source(), texts[:min(len(texts), mostTimed)])
	return err
}

// headBefore measures what a head guesses before it has learnt anything.
func (f *finetuneFlags) headBefore(cmd *cobra.Command, job *finetune.Job) (err error) {
	if f.target.head == "" || f.dryRun {
		return nil
	}
	f.without, err = f.guessed(cmd.Context(), job)
	if err == nil && f.without != nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "drafts before: %s\n", f.without)
	}
	return err
}

// guessed measures the head in training; nil: nothing is held out.
func (f *finetuneFlags) guessed(ctx context.Context, job *finetune.Job) (*drafting, error) {
	texts := job.Held[:min(len(job.Held), mostDrafted)]
	if len(texts) == 0 {
		return nil, nil
	}
	d := &drafting{texts: len(texts)}
	var err error
	d.Acceptance, err = distil.InSteps(texts, func(x model.Text) ([][]bool, error) { return job.Guessed(ctx, x) })
	return d, err
}

func (d *drafting) String() string {
	s := fmt.Sprintf("%.1f %% accepted of %d at a time on %s, %.2f in a pass, which makes it %.2f tokens", 100*d.Share(), distil.Drafts,
		count(d.texts, "held-out text"), d.Length(), d.Length()+1)
	if !d.timed {
		return s
	}
	if d.Guessed == 0 {
		return s + "; none was worth its time on this machine"
	}
	return s + fmt.Sprintf("; answers are %.2f times as fast on this machine, with %d of %d accepted that seemed worth their time", d.Up(), d.Speed.Right, d.Guessed)
}

// draftSummary measures the draft model that was made, and says how it is used.
func (f *finetuneFlags) draftSummary(cmd *cobra.Command, job *finetune.Job) error {
	if err := f.draftsAfter(cmd, job); err != nil {
		return fmt.Errorf("%s is written, and could not be measured: %w", f.out, err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "to use it: quern serve -m %s --model-draft %s\n", quoted(f.target.model), quoted(f.out))
	return err
}

func (f *finetuneFlags) draftsAfter(cmd *cobra.Command, job *finetune.Job) error {
	if f.without == nil {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "drafts: not measured, since nothing is held out")
		return err
	}
	var d *drafting
	if f.target.head != "" {
		err := job.Recall()
		if err == nil {
			d, err = f.guessed(cmd.Context(), job)
		}
		if err != nil {
			return err
		}
	}
	job.Close() // what training takes, the model needs now
	target, err := f.openTarget(f.out)
	if err != nil {
		return err
	}
	m, err := f.device.open(target, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer m.Close()
	if d != nil {
		err = f.timeDrafts(cmd.Context(), m, d, job.Held)
	} else {
		d, err = f.measureDrafts(cmd.Context(), m, job.Plan)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "drafts before: %s\ndrafts after: %s\n", f.without, d)
	return err
}

// writeDrafter writes the model with the adapter in it, which a draft model cannot have beside it.
func (f *finetuneFlags) writeDrafter(ctx context.Context, job *finetune.Job) (int64, error) {
	base, err := openRows(f.model)
	if err != nil {
		return 0, err
	}
	defer base.Close()
	return f.writeMerged(ctx, job, base)
}
