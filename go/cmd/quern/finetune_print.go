package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

// What is learnt is green on a terminal, and between marks elsewhere.
const (
	learntColour, plainColour = "\x1b[32m", "\x1b[0m"
	learntBegin, learntEnd    = "[[", "]]"
	mostShown                 = 2000 // bytes of a part of an example
)

// showExamples shows the first texts, and what of them is learnt.
func showExamples(w io.Writer, tok *tokenizer.Tokenizer, p *finetune.Plan, n int) {
	begin, end := learntBegin, learntEnd
	if isTerminal(w) && !dumb() {
		begin, end = learntColour, plainColour
	}
	pairs := p.Settings.Preference != ""
	if pairs {
		n *= 2
	}
	for i, x := range p.Texts[:min(n, len(p.Texts))] {
		what := fmt.Sprintf("example %d", i+1)
		if pairs {
			what = fmt.Sprintf("pair %d, %s", i/2+1, []string{"the better", "the worse"}[i%2])
		}
		line := fmt.Sprintf("--- %s: %s; learnt: %s", what, count(len(x.Tokens), "token"), begin+"so"+end)
		if p.Pooling != nn.PoolNone {
			line = fmt.Sprintf("--- text %d: %s", i+1, count(len(x.Tokens), "token"))
		}
		fmt.Fprintln(w, line)
		fmt.Fprintln(w, shownText(tok, x, begin, end))
	}
	if n > 0 {
		fmt.Fprintln(w, "---")
	}
	fmt.Fprintf(w, "learnt from: %s\n", countsLine(p.Learnt))
	switch {
	case len(p.Held) > 0:
		fmt.Fprintf(w, "held out: %s\n", countsLine(p.HeldOut))
	case p.HeldOut.Examples > 0:
		fmt.Fprintf(w, "held out: %s; nothing of them is left that says when to stop, so the last step is kept\n", countsLine(p.HeldOut))
	default:
		fmt.Fprintln(w, "held out: none, so that nothing says when to stop; the last step is kept")
	}
	showClasses(w, p.Tally())
}

// shownText is a text with marks around what is learnt.
func shownText(tok *tokenizer.Tokenizer, x model.Text, begin, end string) string {
	var s strings.Builder
	for _, run := range data.Runs(tok, x) {
		text := run.Text
		if len(text) > mostShown {
			text = strings.ToValidUTF8(text[:mostShown/2], "") + " ... " + strings.ToValidUTF8(text[len(text)-mostShown/2:], "")
		}
		var lines []string
		for _, line := range strings.Split(text, "\n") {
			lines = append(lines, visible(line))
		}
		text = strings.Join(lines, "\n")
		if run.Learnt {
			text = begin + text + end
		}
		s.WriteString(text)
	}
	return s.String()
}

// countsLine says what examples have become.
func countsLine(c data.Counts) string {
	s := fmt.Sprintf("%s, %s, of which %d are learnt; the longest has %d", count(c.Examples, "example"), count(c.Tokens, "token"), c.Learnt, c.Longest)
	for _, what := range []struct {
		n    int
		text string
	}{
		{c.Cut, "are longer than -c and cut"}, {c.Skipped, "are longer than -c and left out"},
		{c.Empty, "have nothing learnt left and are left out"},
		{c.Divided, "are divided into several texts"}, {c.Apart, "become a text for each answer, since the template writes earlier ones otherwise"},
	} {
		if what.n > 0 {
			s += fmt.Sprintf("; %d %s", what.n, what.text)
		}
	}
	if c.LongAt != "" {
		s += fmt.Sprintf(" (the first: %s)", visible(c.LongAt))
	}
	return s
}

// estimate measures the first chunk, and prints what the run takes.
func (f *finetuneFlags) estimate(cmd *cobra.Command, job *finetune.Job) error {
	w := cmd.OutOrStdout()
	size := job.Size()
	if mix := job.Settings.Weights; mix != "" {
		fmt.Fprintf(w, "weights: all %s, rounded to %s, %s\n", thousands(uint64(size.Numbers)), strings.ToUpper(mix), mem.FormatBytes(size.Adapter))
	} else if job.Settings.ClassifierAlone() {
		fmt.Fprintf(w, "classifier: %d classes, %s numbers, %s\n", len(job.Classes), thousands(uint64(size.Numbers)), mem.FormatBytes(size.Adapter))
	} else if job.Settings.Head {
		fmt.Fprintf(w, "head: %s weights, rounded to BF16, %s\n", thousands(uint64(size.Numbers)), mem.FormatBytes(size.Adapter))
	} else {
		what := "adapter"
		if job.Settings.Classes != nil {
			what = fmt.Sprintf("classifier of %d classes, and adapter", len(job.Classes))
		}
		fmt.Fprintf(w, "%s: rank %d, alpha %g, %d matrices, %s numbers, %s\n", what, job.Settings.LoRA.Rank, job.Settings.LoRA.Alpha,
			size.Matrices, thousands(uint64(size.Numbers)), mem.FormatBytes(size.Adapter))
	}
	memory := mem.FormatBytes(size.Memory) + " beside the model"
	if size.Kept > 0 {
		memory += fmt.Sprintf(", %s of which make it faster", mem.FormatBytes(size.Kept))
	}
	fmt.Fprintf(w, "memory: %s\n", memory)
	line := fmt.Sprintf("steps: %d of %s of at most %d tokens", job.Config.Steps, count(job.Config.Chunks, "chunk"), job.MaxTokens)
	if taken := job.Taken(); taken > 0 {
		line += fmt.Sprintf(", %d taken", taken)
	}
	fmt.Fprintln(w, line)
	speed, left, err := job.Measure(cmd.Context())
	if err != nil {
		return f.explain(err)
	}
	_, err = fmt.Fprintf(w, "time: about %s, at %.0f tokens a second\n", roughly(left), speed)
	return err
}

// roughly is a time as people say it.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", max(d.Seconds(), 1))
	case d < time.Hour:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// A training shows how a run goes: a bar on a terminal, and a line for each measurement; without held-out examples, for each
// twentieth of the steps.
type training struct {
	out, err io.Writer
	job      *finetune.Job
	bar      *progressbar.ProgressBar // nil: there is no terminal
	losses   float64                  // the sum of what the next line has the mean of
	n        int
}

func newTraining(out, err io.Writer, job *finetune.Job) *training {
	t := &training{out: out, err: err, job: job}
	if isTerminal(err) && !dumb() {
		t.bar = progressbar.NewOptions(job.Config.Steps, progressbar.OptionSetWriter(err), progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish())
		_ = t.bar.Set(job.Taken()) // an error is the terminal's
	}
	return t
}

func (t *training) step(s train.Step) {
	t.losses, t.n = t.losses+s.Loss, t.n+1
	if t.bar != nil {
		t.bar.Describe(fmt.Sprintf("loss %.3f", s.Loss))
		_ = t.bar.Set(s.Number)
	}
	if every := max(t.job.Config.Steps/20, 1); t.job.Every == 0 && s.Number%every == 0 {
		t.line(fmt.Sprintf("step %d of %d: loss %.4f", s.Number, t.job.Config.Steps, t.mean()))
	}
}

func (t *training) held(p finetune.Point, best bool) {
	held := fmt.Sprintf("held-out loss %.4f", p.Held)
	switch {
	case t.job.Pooling != nn.PoolNone:
		held += fmt.Sprintf(" (%.0f %% right)", 100*p.HeldRight)
	case t.job.Settings.Preference != "" && p.Step > 0:
		held += fmt.Sprintf(" (%.0f %% preferred)", 100*p.HeldRight)
	}
	line := fmt.Sprintf("step %d of %d: %s", p.Step, t.job.Config.Steps, held)
	if t.n > 0 {
		line = fmt.Sprintf("step %d of %d: loss %.4f, %s", p.Step, t.job.Config.Steps, t.mean(), held)
		if best {
			line += ", the best"
		}
	} else if p.Step == 0 && !t.job.Settings.OfModel() {
		line += " without the adapter"
	}
	t.line(line)
}

// mean returns that of the losses since the last line.
func (t *training) mean() float64 {
	m := t.losses / float64(max(t.n, 1))
	t.losses, t.n = 0, 0
	return m
}

func (t *training) line(s string) {
	if t.bar != nil {
		_ = t.bar.Clear()
	}
	fmt.Fprintln(t.out, s)
}

func (t *training) done() {
	if t.bar != nil {
		_ = t.bar.Clear()
	}
}

// summary says what was made, and how it is used.
func (f *finetuneFlags) summary(ctx context.Context, w io.Writer, job *finetune.Job, bytes int64) error {
	step := job.Taken()
	if job.Every > 0 {
		step = job.BestStep
	}
	if job.Early {
		fmt.Fprintf(w, "ended after %d steps: the held-out loss was not better in the last %d measurements\n", job.Taken(), job.Settings.Patience)
	}
	fmt.Fprintf(w, "%s: %s, of step %d\n", visible(f.out), mem.FormatBytes(uint64(bytes)), step)
	base, ok := job.Base()
	if job.Settings.OfModel() {
		if ok {
			fmt.Fprintf(w, "held-out loss: %.4f before, %.4f after\n", base, job.Best)
		}
		showConfusion(ctx, w, job)
		if f.target.model != "" {
			return nil
		}
		command := "run"
		if job.Pooling != nn.PoolNone {
			command = use(job.Plan)
		}
		_, err := fmt.Fprintf(w, "to use it: quern %s -m %s\n", command, quoted(f.out))
		return err
	}
	if ok {
		fmt.Fprintf(w, "held-out loss: %.4f without the adapter, %.4f with it", base, job.Best)
		if job.Objective == nil {
			fmt.Fprintf(w, " (perplexity %.2f, %.2f)", math.Exp(base), math.Exp(job.Best))
		}
		fmt.Fprintln(w)
		if job.BestStep == 0 {
			fmt.Fprintln(w, "the adapter changes nothing: no step was better than the model alone; try a smaller --lr, or more examples")
		}
	}
	showConfusion(ctx, w, job)
	if f.target.model != "" {
		return nil
	}
	if f.compare > 0 && job.CanCompare() {
		f.effect(ctx, w, job)
	}
	if f.isPEFT() {
		_, err := fmt.Fprintf(w, "to use it here: quern convert %s --base CHECKPOINT -o adapter.gguf\n", quoted(f.out))
		return err
	}
	_, err := fmt.Fprintf(w, "to use it: quern %s -m %s --lora %s\n", use(job.Plan), quoted(f.model), quoted(f.out))
	return err
}

// effect says how predictions have changed. The adapter is written: where there is no time or no memory for it, that is said.
func (f *finetuneFlags) effect(ctx context.Context, w io.Writer, job *finetune.Job) {
	e, err := job.Compare(ctx, time.Duration(f.compare)*time.Second)
	if err != nil {
		if ctx.Err() == nil {
			fmt.Fprintf(w, "predictions with the adapter and without could not be compared: %s\n", usage.OneLine(err))
		}
		return
	}
	of := ""
	if e.Examples < e.Of {
		of = fmt.Sprintf(" of %d", e.Of)
	}
	fmt.Fprintf(w, "compared with the model alone, on %d%s held-out examples, %s:\n", e.Examples, of, count(e.Tokens, "prediction"))
	if job.Objective != nil || of != "" { // otherwise the held-out losses say so
		fmt.Fprintf(w, "  perplexity %.4g ± %.2g without the adapter, %.4g ± %.2g with it\n", e.BasePPL.Value, e.BasePPL.StdErr, e.PPL.Value, e.PPL.StdErr)
	}
	fmt.Fprintf(w, "  divergence (KLD) %.3g ± %.2g nats, median %.3g, 99 %% %.3g\n", e.KLD.Value, e.KLD.StdErr, eval.At(e.KLDs, 0.5), eval.At(e.KLDs, 0.99))
	fmt.Fprintf(w, "  the same likeliest token: %.1f %%\n", 100*e.SameToken.Value)
}

// use is the command that a plan's adapter is for.
func use(p *finetune.Plan) string {
	switch p.Objective.(type) {
	case train.Classes:
		return "classify"
	case train.Ranking:
		return "rerank"
	}
	if p.Pooling != nn.PoolNone {
		return "embed"
	}
	return "chat"
}

// quoted is an argument as a shell takes it.
func quoted(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$`*?[](){}<>|&;!#~") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
