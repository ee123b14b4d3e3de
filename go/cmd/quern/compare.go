package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/tokenizer"
)

// comparedRows is how many predictions of a model are held at a time: enough tokens
// in a pass for most of its speed.
const comparedRows = 64

// compareFlags are the flags of "quern compare".
type compareFlags struct {
	model      modelFlags // what all models have in common
	file, plot string
	chunks     int
	json       bool
}

func newCompareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare BASE OTHER... -f TEXT",
		Short: "Compare models, or settings of one model, with a base",
		Long: `Compare models with a base model on a text: perplexity, the divergence of their
predictions from the base (Kullback-Leibler divergence in nats, and how often the
most likely token is the same), speed and memory. The text is split into chunks as
by "quern perplexity".

A model may have its own flags, in quotes with it: -b, -ctk, -ctv, --kv-tiers,
--sparse-prompts, --activations and --weights. So two settings of one model can be compared too. All models are in
memory at once; if they do not fit, "quern perplexity" compares two in separate runs
(--save-all-logits). Speed is prompt speed, in passes of up to ` + fmt.Sprint(comparedRows) + ` tokens where
predictions are scored.`,
		Example: `  quern compare f16.gguf q8_0.gguf q4_k_m.gguf -f wiki.test.raw --plot kld.svg
  quern compare model.gguf "model.gguf --kv-tiers 256:i16,*:q8_0" -f text.txt -c 2048`,
		Args: arguments(2, allArguments),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.model.define(fs)
	fs.Lookup("model").Hidden = true // models are arguments
	f.model.defineContext(fs, 512, eval.MinCtx, "tokens of a chunk")
	fs.StringVarP(&f.file, "file", "f", "", "`TEXT` file to predict")
	intVar(fs, &f.chunks, "chunks", "", 0, -1, 1<<30, "maximum chunks to evaluate; 0 or -1 is all")
	fs.StringVar(&f.plot, "plot", "", "draw the divergences to an SVG `FILE`; an existing one is replaced")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// A contender is a model that is compared.
type contender struct {
	name   string // as it was given
	model  modelFlags
	head   *launch.Head
	eng    *engine.Engine
	memory uint64 // of the budget that it has reserved: the growth of the process would say little of the second and later models
}

func (c *contender) close() {
	if c.eng != nil {
		c.eng.Close()
	}
	if c.head != nil {
		c.head.Close()
	}
}

// contend returns the model that an argument names, with flags of its own behind the path.
func (f *compareFlags) contend(arg string) (*contender, error) {
	c := &contender{name: arg, model: modelFlags{openFlags: openFlags{ctx: f.model.ctx}}}
	path, own := arg, ""
	if _, err := os.Stat(arg); err != nil {
		if at := strings.Index(arg, " -"); at > 0 {
			path, own = strings.TrimSpace(arg[:at]), arg[at+1:]
		}
	}
	fs := pflag.NewFlagSet(arg, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SetNormalizeFunc(dashes)
	c.model.defineMemory(fs)
	c.model.files = f.model.files // a checkpoint is converted once for all
	args, err := llamaflags.Rewrite(fs, strings.Fields(own))
	if err == nil {
		err = fs.Parse(args)
	}
	switch {
	case err != nil:
		return nil, usagef("%q: %w", arg, err)
	case fs.NArg() > 0:
		return nil, usagef("%q: %q is no flag; give a model, and behind it its flags", arg, fs.Arg(0))
	case fs.Changed("model") || fs.Changed("memory"):
		return nil, usagef("%q: only -b, -ctk, -ctv, --kv-tiers, --sparse-prompts, --activations and --weights may differ between models", arg)
	}
	f.model.flags.VisitAll(func(flag *pflag.Flag) {
		if own := fs.Lookup(flag.Name); flag.Changed && own != nil && !own.Changed && flag.Name != "memory" && err == nil {
			err = fs.Set(flag.Name, flag.Value.String())
		}
	})
	c.model.path = path
	return c, err
}

// run compares the models.
func (f *compareFlags) run(cmd *cobra.Command, args []string) error {
	switch {
	case f.model.path != "":
		return usagef("-m: models are compared as arguments; give them without -m")
	case f.file == "":
		return usagef("no text; give one with -f FILE")
	}
	text, err := readFile(f.file)
	if err != nil {
		return err
	}
	var (
		all    []*contender
		device *engine.Device
	)
	defer func() {
		for _, c := range all {
			c.close()
		}
		if device != nil {
			device.Close()
		}
	}()
	for _, arg := range args {
		c, err := f.contend(arg)
		if err != nil {
			return err
		}
		all = append(all, c)
		c.model.warn(notes(cmd.ErrOrStderr()))
		if c.head, err = c.model.readHead(); err != nil {
			return err
		}
	}
	base := all[0]
	cut := eval.Chunks{Ctx: f.model.ctx, Max: max(f.chunks, 0), AddBOS: base.head.Tokenizer.AddBOS()}
	cut.BOS, _ = base.head.Tokenizer.BOS()
	ids := base.head.Tokenizer.Encode(text, tokenizer.Options{})
	if _, err := cut.Count(len(ids)); err != nil {
		return err // before models are loaded, which may take long
	}
	for _, c := range all[1:] {
		if c.head.Config.NVocab != base.head.Config.NVocab || !slices.Equal(c.head.Tokenizer.Encode(text, tokenizer.Options{}), ids) {
			return fmt.Errorf("%s has another vocabulary than %s: their predictions cannot be compared", c.model.path, base.model.path)
		}
	}
	if device, err = f.model.device().Open(); err != nil {
		return err
	}
	for _, c := range all {
		if err := c.open(cmd, device, ids); err != nil {
			return err
		}
	}
	return f.compare(cmd, device, all, ids, cut)
}

// open loads the model on the device, and has it read a little, for memory that it takes only then.
func (c *contender) open(cmd *cobra.Command, device *engine.Device, ids []int32) error {
	bar := newLoadBar(cmd.ErrOrStderr())
	defer bar.done()
	before := device.Budget().Used()
	m, err := c.head.Open(cmd.Context(), device, launch.Events{Progress: bar.update})
	if err != nil {
		return err
	}
	c.eng = m.Engine
	text := evaluated(c.eng)()
	defer text.Close()
	n := min(len(ids), c.eng.Ctx())
	err = text.Eval(cmd.Context(), ids[:n], n-1, func(int, []float32) error { return nil })
	c.memory = device.Budget().Used() - before
	return err
}

func (f *compareFlags) compare(cmd *cobra.Command, device *engine.Device, all []*contender, ids []int32, cut eval.Chunks) error {
	nVocab := all[0].head.Config.NVocab
	rows, err := device.Budget().Alloc("logits to compare", uint64(8*min(comparedRows, cut.Scored())*nVocab))
	if err != nil {
		return err
	}
	defer rows.Close()
	var models []eval.Model
	for _, c := range all {
		models = append(models, evaluated(c.eng))
	}
	stderr := cmd.ErrOrStderr()
	shown := isTerminal(stderr)
	got, err := eval.Compare(cmd.Context(), models[0], models[1:], ids, cut, nVocab, mem.Float32s(rows.Bytes()), func(c *eval.Comparison) error {
		if shown {
			fmt.Fprintf(stderr, "[%d]%.4f,", c.Base.Chunks, c.Base.PPL)
		}
		return nil
	})
	if shown {
		fmt.Fprintln(stderr)
	}
	if err != nil {
		return err
	}
	if f.plot != "" {
		var names []string
		for _, c := range all[1:] {
			names = append(names, c.name)
		}
		_, err := newfile.Write(f.plot, true, 0o644, 0, func(w io.Writer) (int64, error) {
			return eval.Plot(w, "Divergence from "+all[0].name, names, got.Others)
		})
		if err != nil {
			return err
		}
	}
	r := report(f.file, device.Threads(), all, cut, got)
	if f.json {
		return printJSON(cmd.OutOrStdout(), r)
	}
	return r.print(cmd.OutOrStdout())
}
