package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/tokenizer"
)

// perplexityFlags are the flags of "quern perplexity".
type perplexityFlags struct {
	model      modelFlags
	file       string
	chunks     int
	logits     string // file to write, or to read with divergence
	force      bool
	divergence bool
	kinds      [3]bool // of questions, as in questionKinds
	tasks      [3]int  // at most; 0 is all
}

var questionKinds = [3]string{eval.HellaSwag, eval.Winogrande, eval.MultipleChoice}

func newPerplexityCommand() *cobra.Command {
	var f perplexityFlags
	cmd := &cobra.Command{
		Use:   "perplexity -m FILE -f TEXT",
		Short: "Measure the perplexity of a model, or its score on a benchmark",
		Long: `Measure the perplexity of a model on a text, by llama-perplexity's method, so that
results are comparable: the text is split into chunks of -c tokens, and the second
half of each is scored. The estimate so far is printed after each chunk.

With --save-all-logits, the logits are saved in llama-perplexity's format. With
--kl-divergence, they are compared with the saved logits of another model. Both
programs read each other's files.

With --hellaswag, --winogrande or --multiple-choice, TEXT is a benchmark, and the
model chooses the most likely answers. The format is llama-perplexity's, or the
data set's JSON, one object per line.`,
		Example: `  quern perplexity -m model.gguf -f wiki.test.raw
  quern perplexity -m f16.gguf -f wiki.test.raw --save-all-logits f16.logits
  quern perplexity -m q4.gguf --kl-divergence --kl-divergence-base f16.logits
  quern perplexity -m model.gguf -f hellaswag_val_full.txt --hellaswag --hellaswag-tasks 400`,
		Args: flagsAlone,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	fs := cmd.Flags()
	f.model.define(fs)
	f.model.defineContext(fs, 512, eval.MinCtx, "tokens of a chunk")
	fs.StringVarP(&f.file, "file", "f", "", "`TEXT` file to predict, or of questions")
	intVar(fs, &f.chunks, "chunks", "", 0, -1, 1<<30, "maximum chunks to evaluate; 0 or -1 is all")
	fs.StringVar(&f.logits, "save-all-logits", "", "save the logits to a `FILE`")
	fs.StringVar(&f.logits, "kl-divergence-base", "", "`FILE` of saved logits to compare with")
	fs.BoolVar(&f.force, "force", false, "replace an existing file of --save-all-logits")
	fs.BoolVar(&f.divergence, "kl-divergence", false, "compare with the logits in the file of --kl-divergence-base")
	for i, kind := range questionKinds {
		fs.BoolVar(&f.kinds[i], kind, false, "TEXT is a benchmark of this kind")
		intVar(fs, &f.tasks[i], kind+"-tasks", "", 0, 0, 1<<30, "number of tasks, spread over the file; 0 is all")
	}
	llamaFlags(fs, llamaflags.Common, llamaflags.Tools)
	return cmd
}

// run does what the flags say.
func (f *perplexityFlags) run(cmd *cobra.Command) error {
	modes := []bool{f.divergence}
	modes = append(modes, f.kinds[:]...)
	modes = slices.DeleteFunc(modes, func(on bool) bool { return !on })
	switch err := f.model.required(); {
	case err != nil:
		return err
	case len(modes) > 1:
		return usagef("--kl-divergence, --hellaswag, --winogrande and --multiple-choice are different measures; give one")
	case f.divergence && f.logits == "":
		return usagef("--kl-divergence: compared with what? give the file of --save-all-logits with --kl-divergence-base FILE")
	case !f.divergence && f.file == "":
		return usagef("no text; give one with -f FILE")
	}
	f.model.warn(notes(cmd.ErrOrStderr()))
	text := ""
	if f.file != "" {
		var err error
		if text, err = readFile(f.file); err != nil {
			return err
		}
	}
	head, err := f.model.readHead()
	if err != nil {
		return err
	}
	defer head.Close()
	switch {
	case f.divergence:
		return f.diverge(cmd, head, text)
	case len(modes) > 0:
		return f.choose(cmd, head, text)
	}
	return f.predict(cmd, head, text)
}

// cut returns how texts for the model are cut.
func (f *perplexityFlags) cut(tok *tokenizer.Tokenizer) eval.Chunks {
	c := eval.Chunks{Ctx: f.model.ctx, Max: max(f.chunks, 0), AddBOS: tok.AddBOS()}
	c.BOS, _ = tok.BOS()
	return c
}

// predict measures the perplexity, and saves what was predicted where that is wanted.
func (f *perplexityFlags) predict(cmd *cobra.Command, head *launch.Head, text string) error {
	c := f.cut(head.Tokenizer)
	ids := head.Tokenizer.Encode(text, tokenizer.Options{})
	chunks, err := c.Count(len(ids))
	if err != nil {
		return err // before the model is loaded, which may take long
	}
	if f.logits == "" {
		return f.estimate(cmd, head, ids, c, nil)
	}
	size := eval.LogitsBytes(c, chunks, head.Config.NVocab)
	_, err = newfile.Write(f.logits, f.force, 0o644, size, func(w io.Writer) (int64, error) {
		file, err := eval.NewLogitsWriter(w, ids, c, chunks, head.Config.NVocab)
		if err != nil {
			return 0, err
		}
		if err := f.estimate(cmd, head, ids, c, file.Add); err != nil {
			return 0, err
		}
		return file.Close()
	})
	return orForce(f.logits, err)
}

// estimate evaluates the chunks and prints the perplexity.
func (f *perplexityFlags) estimate(cmd *cobra.Command, head *launch.Head, ids []int32, c eval.Chunks, save func([]float32) error) error {
	m, err := f.model.open(head, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer m.Close()
	eng := m.Engine
	out := cmd.OutOrStdout()
	est, err := eval.Perplexity(cmd.Context(), evaluated(eng), ids, c, save, func(e eval.Estimate) error {
		_, err := fmt.Fprintf(out, "[%d]%.4f,", e.Chunks, e.PPL)
		return err
	})
	if est.Chunks > 0 {
		fmt.Fprintln(out)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "PPL = %.4f +/- %.5f\n", est.PPL, est.StdErr)
	return err
}

// diverge compares the model with what was saved of another.
func (f *perplexityFlags) diverge(cmd *cobra.Command, head *launch.Head, text string) error {
	file, err := os.Open(f.logits)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	saved, err := eval.ReadLogits(file, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", f.logits, err)
	}
	switch {
	case saved.NVocab != head.Config.NVocab:
		return fmt.Errorf("%s has the logits of a vocabulary of %d, that of %s is %d; give models of one family", f.logits, saved.NVocab, f.model.path, head.Config.NVocab)
	case f.model.flags.Changed("ctx-size") && f.model.ctx != saved.Ctx:
		return usagef("-c %d: %s has chunks of %d tokens; leave it out", f.model.ctx, f.logits, saved.Ctx)
	case f.file != "" && !begins(head.Tokenizer.Encode(text, tokenizer.Options{}), saved.IDs):
		return fmt.Errorf("%s was saved of another text than %s, or by another vocabulary; leave -f out to take its text", f.logits, f.file)
	}
	f.model.ctx, head.Settings.Ctx = saved.Ctx, saved.Ctx
	m, err := f.model.open(head, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer m.Close()
	eng := m.Engine
	out := cmd.OutOrStdout()
	fmt.Fprintln(out, divergenceHead)
	d, err := saved.Divergence(cmd.Context(), evaluated(eng), f.cut(head.Tokenizer), func(chunk int, d *eval.Divergence) error {
		return printChunk(out, chunk, d.Summary())
	})
	if err != nil {
		return err
	}
	return printDivergence(out, d.Summary())
}

// begins reports whether ids begin with head.
func begins(ids, head []int32) bool {
	return len(ids) >= len(head) && slices.Equal(ids[:len(head)], head)
}

// choose has the model answer questions.
func (f *perplexityFlags) choose(cmd *cobra.Command, head *launch.Head, text string) error {
	kind := slices.Index(f.kinds[:], true)
	questions, err := eval.Questions(questionKinds[kind], text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	encode := func(s string) []int32 { return head.Tokenizer.Begin(head.Tokenizer.Encode(s, tokenizer.Options{})) }
	var tasks []eval.Task
	for i, q := range eval.Spread(questions, f.tasks[kind]) {
		t, err := eval.NewTask(q, encode)
		if err == nil && t.Tokens() > f.model.ctx {
			err = fmt.Errorf("%d tokens in a context of %d; give a larger -c", t.Tokens(), f.model.ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: task %d: %w", f.file, i+1, err)
		}
		tasks = append(tasks, t)
	}
	m, err := f.model.open(head, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer m.Close()
	eng := m.Engine
	out := cmd.OutOrStdout()
	line := func(s eval.Score) error {
		low, high := s.Interval()
		_, err := fmt.Fprintf(out, "%d\t%.4f%%\t[%.4f%%, %.4f%%]\n", s.Tasks, 100*s.Accuracy(), 100*low, 100*high)
		return err
	}
	fmt.Fprintln(out, "task\tacc_norm\t95% confidence interval")
	score, err := eval.Choose(cmd.Context(), evaluated(eng), tasks, line)
	if err != nil {
		return err
	}
	low, high := score.Interval()
	_, err = fmt.Fprintf(out, "accuracy = %.4f%% [%.4f%%, %.4f%%], %d of %d tasks; by chance %.2f%%\n",
		100*score.Accuracy(), 100*low, 100*high, score.Right, score.Tasks, 100*score.Chance())
	return err
}
