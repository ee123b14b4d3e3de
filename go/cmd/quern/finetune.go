package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/train"
	"github.com/quern-llm/quern/go/train/data"
)

// finetuneFlags are the flags of "quern finetune".
type finetuneFlags struct {
	model    string
	files    *launch.Files
	set      launch.Overrides
	device   deviceFlags
	ranks    string
	template templateFlags

	data, held     []string
	format         string
	settings       finetune.Settings
	schedule, long string
	objective      string
	saveEvery      int
	seed           int

	target  targetFlags
	classes classesFlag
	without *drafting // how the draft model does before it is trained; nil: nothing is held out

	out, base, plot, log  string
	resume, dryRun, force bool
	show, compare         int

	made  func() (*model.File, error) // makes the model that is trained; nil: it is read
	shape string                      // the file that it is made by
	known *data.Set                   // the examples, which were read to make it, until they are planned; nil: they are not
}

// objectives are the words of --objective.
var objectives = []string{autoObjective, "answers", string(finetune.DPO), string(finetune.ORPO)}

const autoObjective = "auto"

// schedules are the words of --schedule, each at its train.Schedule.
var schedules = []string{"cosine", "linear", "constant"}

func newFinetuneCommand() *cobra.Command {
	f := finetuneFlags{settings: finetune.Defaults(), files: newFiles()}
	cmd := &cobra.Command{
		Use:   "finetune -m FILE --data FILE... -o OUT",
		Short: "Fine-tune a model: train a LoRA adapter on examples",
		Long: `Train a LoRA adapter for a model on examples. The model may be quantized in nearly
any type: what is trained is what is served. OUT is a GGUF file (.gguf), for --lora and
"quern merge-lora"; any other name is a folder, for an adapter in PEFT's format.

Examples are files, or folders of them, in one of these formats, which is recognized:
OpenAI's {"messages": [...], "tools": [...]} with a weight of 0 or 1 for answers;
ShareGPT's {"conversations": [...]}; {"instruction", "input", "output"}; {"prompt",
"completion"} and {"text"}, which are texts without a template; and plain text.
Of conversations, which the model's chat template writes, only the answers are learnt.
From pairs of a better and a worse answer, in OpenAI's format or as {"prompt", "chosen",
"rejected"}, the model learns to prefer the better (DPO, or --objective orpo).

Embedding models and rerankers learn from {"query", "positive", "negatives"} and
{"sentence1", "sentence2", "score"}, classifiers from {"text", "label"}. With --classes a model
without a classifier gets a new one, of these classes, and OUT is a model for "quern classify".

With --draft-for TARGET the model becomes a better draft model of TARGET, which has to have
the same vocabulary: TARGET answers the examples' prompts, and what it answers is learnt.
With --draft-head eagle3 a new head that drafts for the model itself learns that of the
model's own answers. OUT is for --model-draft then.

Before anything is trained, the first examples are shown, with what is learnt in
colour, and how long it will take. A part of the examples is held out: their loss says
when to stop, and the best adapter is kept. On Ctrl-C the run is saved beside OUT, and
--resume goes on from there with the result of a run that was not interrupted.`,
		Example: `  quern finetune -m model-Q4_K_M.gguf --data chats.jsonl -o adapter.gguf
  quern finetune -m model-Q4_K_M.gguf --data chats.jsonl --dry-run
  quern finetune -m hf.co/ORG/REPO --data notes/ --epochs 1 --rank 32 --plot loss.svg -o notes.gguf
  quern run -m model-Q4_K_M.gguf --lora adapter.gguf -p "Hello"
  quern finetune -m encoder.gguf --classes refund,delivery,other --data labelled.jsonl -o desk.gguf
  quern finetune -m small.gguf --draft-for model-Q4_K_M.gguf --data prompts.jsonl -o drafts.gguf
  quern finetune -m model-Q4_K_M.gguf --draft-head eagle3 --data prompts.jsonl -o head.gguf`,
		Args: flagsAlone,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	fs := cmd.Flags()
	hub := modelVar(fs, &f.model, "GGUF `FILE` of the model, or model to download, such as hf.co/ORG/REPO; demo is the embedded demo model")
	f.defineExamples(fs)
	fs.StringVarP(&f.out, "output", "o", "", "`OUT` to write: FILE.gguf, or a folder for PEFT's format")
	fs.StringVar(&f.base, "base", "", "`NAME` of the model's checkpoint, which PEFT's format has (default: as -m)")
	f.target.define(fs, hub)
	f.classes.define(fs)
	s := &f.settings
	choiceVar(fs, &f.objective, "objective", autoObjective, objectives, "what is learnt; of pairs of answers, auto is dpo")
	floatVar(fs, &s.Temperature, "temperature", 0.05, 1e-3, 1e3, "temperature of cosines of texts that are compared with each other")
	floatVar(fs, &s.Beta, "beta", 0.1, 1e-6, 1000, "beta of dpo and orpo")
	fs.StringVar(&s.Weights, "full", "", "train all weights in place of an adapter, rounded to a `TYPE` that quern quantize makes, such as BF16, F32 or Q4_K_M; OUT is a model")
	intVar(fs, &s.LoRA.Rank, "rank", "", s.LoRA.Rank, 1, kernel.MaxRank, "rank of the adapter")
	floatVar(fs, &s.LoRA.Alpha, "alpha", 0, 0, 1e6, "alpha of the adapter, whose scale is alpha/rank; 0 is twice the rank")
	fs.BoolVar(&s.LoRA.RankStable, "rslora", false, "the scale is alpha divided by the root of the rank (rsLoRA)")
	fs.BoolVar(&s.LoRA.Magnitudes, "dora", false, "each row of a matrix has a magnitude, which is trained too (DoRA)")
	fs.StringSliceVar(&s.LoRA.Targets, "targets", nil, "matrices of each layer that are trained, `NAMES` such as attn_q,attn_v (default: all of attention and feed-forward, and of classifiers cls and cls.output)")
	f.defineSteps(fs)
	fs.Lookup("lr").Usage += "; without the flag, 2e-05 of dpo and 5e-05 of orpo, 5e-04 of --draft-head, and with --full 2e-05, 1e-06 of dpo and 5e-06 of orpo; of --classes 1e-03, 2e-02 of the classifier alone, and with --full 1e-04"
	intVar(fs, &f.compare, "compare", "", 30, 0, 1<<30, "seconds at the end, about, to compare predictions of held-out examples with the adapter and without; 0 is none")
	f.template.define(fs)
	defineOverrides(fs, &f.set)
	f.device.defineThreads(fs)
	fs.StringVar(&f.ranks, "ranks", "", "`RANKS` that train an adapter together: mpi, the processes of the MPI job that this one is of (bin/quern-mpi), each with the model and the examples (default: this process alone)")
	f.device.defineLimit(fs)
	return cmd
}

// defineExamples defines the flags of what is learnt.
func (f *finetuneFlags) defineExamples(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.data, "data", nil, "`FILE` or folder of examples; repeatable")
	fs.StringArrayVar(&f.held, "val-data", nil, "`FILE` or folder of examples that are held out; repeatable")
	s := &f.settings
	floatVar(fs, &s.Share, "val-split", s.Share, 0, 0.9, "share of the examples that is held out, without --val-data; 0 is none")
	var formats, longs []string
	for _, name := range data.Formats {
		formats = append(formats, string(name))
	}
	for _, name := range data.Longs {
		longs = append(longs, string(name))
	}
	choiceVar(fs, &f.format, "format", string(data.Auto), formats, "format of the examples")
	intVar(fs, &s.Context, "ctx-size", "c", 0, 0, 1<<20, "maximum tokens of an example; 0 is 2048, or the model's context")
	choiceVar(fs, &f.long, "long", string(data.Cut), longs, "what becomes of longer examples; texts without a prompt are divided")
}

// defineSteps defines the flags of how it is learnt.
func (f *finetuneFlags) defineSteps(fs *pflag.FlagSet) {
	s := &f.settings
	intVar(fs, &s.Epochs, "epochs", "", s.Epochs, 1, 10_000, "times that all examples are learnt")
	intVar(fs, &s.Steps, "steps", "", 0, 0, 1<<24, "steps in all, instead of --epochs")
	intVar(fs, &s.Batch, "batch-size", "b", 0, 0, 1<<28, "tokens of a step; 0 is a 64th of the examples, from 512 to 8192")
	floatVar(fs, &s.Rate, "lr", s.Rate, 1e-12, 10, "learning rate, the largest")
	floatVar(fs, &s.Least, "lr-min", 0, 0, 1, "share of it that is left at the end")
	choiceVar(fs, &f.schedule, "schedule", schedules[0], schedules, "how it falls")
	floatVar(fs, &s.Warmup, "warmup", s.Warmup, 0, 1, "share of the steps in which it rises from 0")
	floatVar(fs, &s.Decay, "weight-decay", 0, 0, 1, "weight decay (AdamW)")
	floatVar(fs, &s.Beta2, "beta2", s.Beta2, 0, 0.99999, "AdamW's mean of squares forgets as much less as this is nearer to 1; 0 is 0.999")
	floatVar(fs, &s.Muon, "muon", s.Muon, 0, 10, "largest rate of Muon, which takes the matrices of layers where all weights are trained; 0: AdamW takes these too")
	floatVar(fs, &s.MuonDecay, "muon-decay", s.MuonDecay, 0, 1, "weight decay of Muon")
	floatVar(fs, &s.Clip, "clip", s.Clip, 0, math.MaxFloat32, "maximum norm of a step's gradient; 0 is any")
	intVar(fs, &f.seed, "seed", "s", 0, 0, math.MaxInt32, "seed of the first numbers and of the order of examples")
	intVar(fs, &s.Every, "eval-every", "", 0, 0, 1<<24, "steps between measurements of the held-out loss; 0 is a tenth of all")
	intVar(fs, &s.Patience, "patience", "", s.Patience, 0, 1<<24, "measurements without a better one after which training ends; 0 is never")
	intVar(fs, &f.saveEvery, "save-every", "", 0, 0, 1<<24, "steps between saves; 0 is every ten minutes")
	fs.BoolVar(&f.resume, "resume", false, "go on from where the run was saved")
	fs.BoolVar(&f.dryRun, "dry-run", false, "show the first examples and the estimate, and end")
	intVar(fs, &f.show, "show", "", 2, 0, 1000, "examples to show at the beginning")
	fs.StringVar(&f.plot, "plot", "", "draw the losses to an SVG `FILE`; an existing one is replaced")
	fs.StringVar(&f.log, "log", "", "write the losses to a CSV `FILE`; an existing one is replaced")
	fs.BoolVar(&f.force, "force", false, "replace an existing OUT, and a run that was saved")
	for _, name := range []string{"lr", "lr-min", "epochs", "val-split"} { // as llama-finetune has them
		alias(fs, name, name)
	}
	alias(fs, "weight-decay", "wd")
}

// check validates the flags, and completes the settings.
func (f *finetuneFlags) check(fs *pflag.FlagSet) error {
	switch {
	case f.model == "":
		return errNoModel
	case len(f.data) == 0:
		return usagef("no examples; give a file or folder with --data")
	case f.out == "" && !f.dryRun:
		return usagef("no file to write; give one with -o OUT")
	case f.resume && f.out == "":
		return usagef("--resume: the run that was saved is beside OUT; give it with -o OUT")
	}
	s := &f.settings
	switch {
	case s.Weights != "" && f.isPEFT():
		return usagef("--full: OUT is a model; give a FILE.gguf with -o")
	case s.Weights == "" && f.target.head == "" && (s.Muon != 0 || s.MuonDecay != 0):
		return usagef("--muon takes matrices of models whose weights are all trained; give --full as well")
	case fs.Changed("base") && f.out != "" && !f.isPEFT():
		return usagef("--base is in PEFT's format alone, and OUT is a file of GGUF")
	}
	for _, name := range []string{"rank", "alpha", "rslora", "dora", "targets"} {
		if s.Weights != "" && fs.Changed(name) {
			return usagef("--%s is of an adapter, and --full trains all weights; give one of them", name)
		}
		if f.target.head != "" && fs.Changed(name) {
			return usagef("--%s is of an adapter, and --draft-head trains all weights of a head; leave one of them out", name)
		}
	}
	if s.Weights != "" {
		if _, err := quant.ParseMix(s.Weights); err != nil {
			return usagef("%w", err)
		}
	}
	s.Schedule = train.Schedule(slices.Index(schedules, f.schedule))
	s.Long, s.Seed, s.LoRA.Seed = data.Long(f.long), uint64(f.seed), uint64(f.seed)
	if s.LoRA.Alpha == 0 {
		s.LoRA.Alpha = 2 * float64(s.LoRA.Rank)
	}
	if err := errors.Join(f.target.check(f, fs), f.classes.check(f)); err != nil {
		return err
	}
	if s.Share == 0 && len(f.held) == 0 {
		if err := measures(fs, s, false); err != nil {
			return err
		}
	}
	f.usualRate(fs)
	return f.template.check()
}

// usualRate sets the rate that suits what is trained, unless one was given, or a new model is made.
func (f *finetuneFlags) usualRate(fs *pflag.FlagSet) {
	if f.made == nil && !fs.Changed("lr") {
		f.settings.Rate = f.settings.UsualRate()
	}
}

func (f *finetuneFlags) run(cmd *cobra.Command) (err error) {
	if err := errors.Join(f.check(cmd.Flags()), f.checkRanks()); err != nil {
		return err
	}
	g, err := f.join()
	if err != nil {
		return err
	}
	defer func() { leaveRanks(g, err) }()
	if !follows(g) {
		if err := f.checkOutputs(); err != nil {
			return err
		}
	}
	r := data.Renderer{Now: time.Now()}
	var saved *finetune.Checkpoint
	if f.resume && !follows(g) {
		if begun, ok := f.target.begun(f); ok { // nothing was trained yet
			r.Now = begun
		} else {
			if saved, err = finetune.OpenCheckpoint(f.checkpoint()); err != nil {
				return fmt.Errorf("--resume: %w", err)
			}
			defer saved.Close()
			r.Now = saved.Now
		}
	}
	if r.Now, err = sameTime(g, r.Now); err != nil {
		return err
	}
	head, err := f.head()
	if err != nil {
		return err
	}
	defer head.Close()
	if f.out != "" && !follows(g) {
		if err := checkOutputs(f.written(), head.File.Paths); err != nil {
			return err
		}
	}
	plan, err := f.planOf(cmd, head, &r)
	if err == nil {
		err = unused(cmd.Flags(), plan)
	}
	if err == nil && saved != nil {
		err = named(cmd.Flags(), saved.Plan(plan))
	}
	if err != nil {
		return err
	}
	pool, budget, err := f.start()
	if err != nil {
		return err
	}
	defer pool.Close()
	job, err := finetune.New(cmd.Context(), finetune.Source{File: head.File, Pool: pool, Budget: budget, Spare: true, Ranks: g}, plan)
	if err != nil {
		return f.explain(err)
	}
	defer job.Close()
	if f.isPEFT() {
		if err := job.CheckPEFT(); err != nil {
			return fmt.Errorf("PEFT's format: %w; give an OUT of the name FILE.gguf", err)
		}
	}
	if err := f.headBefore(cmd, job); err != nil {
		return err
	}
	if saved != nil {
		if err := job.Restore(saved); err != nil {
			return err
		}
	}
	if follows(g) {
		return trainAlong(cmd.Context(), job)
	}
	showExamples(cmd.OutOrStdout(), head.Tokenizer, plan, f.show)
	if err := f.estimate(cmd, job); err != nil || f.dryRun {
		return err
	}
	// While a saved run is replaced there are two of it.
	size := job.Size()
	if err := newfile.CheckSpace(filepath.Dir(filepath.Clean(f.out)), size.Adapter+f.merged(head.File, job)+2*size.Checkpoint); err != nil {
		return err
	}
	return f.train(cmd, job, r.Now)
}

// head opens the model that is trained.
func (f *finetuneFlags) head() (*launch.Head, error) {
	s := launch.Settings{Overrides: f.set, NoProjector: true}
	if f.classes.from != "" {
		return f.classes.head(f, s)
	}
	if f.made == nil {
		return f.files.ReadHead(f.model, s)
	}
	file, err := f.made()
	if err != nil {
		return nil, err
	}
	return f.files.HeadOf(f.model, file, s)
}

// start starts the threads, and returns the memory that may be used.
func (f *finetuneFlags) start() (*kernel.Pool, *mem.Budget, error) {
	c, err := f.device.device().Config()
	if err != nil {
		return nil, nil, err
	}
	at, err := engine.Threads(c.Place, c.Threads)
	if err != nil {
		return nil, nil, err
	}
	pool, err := kernel.NewPool(c.Threads, at)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.Budget.Reserve("the program and the examples", engine.ProgramBytes(c.Budget)); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, c.Budget, nil
}

// explain says which flags help.
func (f *finetuneFlags) explain(err error) error {
	var full *mem.LimitError
	switch {
	case errors.As(err, &full):
		less := "a smaller --rank take less"
		switch {
		case f.target.head != "":
			less = "a smaller --draft-vocab take less"
		case f.settings.Weights != "":
			less = "an adapter in place of --full take less"
		}
		return fmt.Errorf("%w; shorter examples (-c), fewer tokens of a step (-b) or %s", err, less)
	case errors.Is(err, model.ErrNotFinite):
		return fmt.Errorf("%w; a smaller --lr may help", err)
	}
	return err
}

// train runs the job, and writes what it has made.
func (f *finetuneFlags) train(cmd *cobra.Command, job *finetune.Job, now time.Time) error {
	p := newTraining(cmd.OutOrStdout(), cmd.ErrOrStderr(), job)
	save := func() error {
		if err := job.Save(f.checkpoint(), now); err != nil {
			return err
		}
		return f.draw(job)
	}
	last, lastStep := time.Now(), job.Taken()
	err := job.Run(cmd.Context(), finetune.Events{Step: p.step, Held: p.held, Each: func() error {
		due := time.Since(last) >= 10*time.Minute
		if f.saveEvery > 0 {
			due = job.Taken()-lastStep >= f.saveEvery
		}
		if !due {
			return nil
		}
		if err := save(); err != nil { // the next time there may be room; the work so far is in memory
			p.line(fmt.Sprintf("the run could not be saved, and goes on: %v", err))
		}
		last, lastStep = time.Now(), job.Taken()
		return nil
	}})
	p.done()
	if err != nil {
		if job.Taken() == 0 && len(job.Points) == 0 {
			return f.explain(err)
		}
		if errors.Is(err, model.ErrNotFinite) { // to go on from there would lead to the same
			return f.salvage(cmd.Context(), job, f.explain(err))
		}
		if saveErr := save(); saveErr != nil {
			return errors.Join(f.explain(err), saveErr)
		}
		if errors.Is(err, context.Canceled) {
			notes(cmd.ErrOrStderr())(fmt.Sprintf("saved after %d of %d steps to %s; the same command with --resume goes on",
				job.Taken(), job.Config.Steps, visible(f.checkpoint())))
		}
		return f.explain(err)
	}
	return f.finish(cmd, job, save)
}
