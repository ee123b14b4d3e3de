package main

import (
	"context"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/bench"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/synth"
)

// maxTokens is a sanity bound on the tokens of a test; available memory is a much lower
// one.
const maxTokens = 1 << 24

// benchFlags are the flags of "quern bench": llama-bench's, then ours.
type benchFlags struct {
	models                  []string
	prompt, gen, depth      []int
	promptGen               promptGenValue
	batch, ubatch, threads  []int
	typeK, typeV, flashAttn []string
	reps                    int
	output                  string
	noWarmup, noRoofline    bool
	weights                 string
	memory                  uint64

	profile    bool
	profileSVG string

	curve   bool
	kernels bool
	types   []string

	speculate []bench.Chances
	streams   []int

	hub   hubFlags
	synth string
	seed  int
	force bool

	flags *pflag.FlagSet
}

func newBenchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [--profile | --curve | --kernels | --synth SHAPE:TYPE -o FILE]",
		Short: "Measure how fast a model runs, or write one to measure",
		Long: `Measure how fast models run: -p reads a prompt (pp), -n generates (tg), -pg does
one after the other; -d does them after that many tokens. Flags and output are
llama-bench's. Values may be lists (1,2,8) and ranges (1-8, 1-8+2, 1-64*2), flags
may be given again, and every combination is measured.

Beside each speed stands the most that this machine allows: reading every weight
and key once, at the bandwidth measured first, or multiplying at the 8-bit peak
measured first, whichever takes longer. --no-roofline leaves that out.

` + orDemoHelp + ` It fits into the
caches, so it says little about the speed of models that do not.

With --curve, measure passes of 1 to 32, 48, 64, 96, 128, 256 and 512 tokens, or of
the -p given, and how often the time of a pass of one token each takes. As in pp
tests, the logits of the last token are computed.

With --profile, say where the time of each test went: of each operation over the
same tensors of all layers its runs, its share of the time, how much of it threads
waited for each other, what it read and multiplied, and how near that is to what
the machine allows. --profile-svg draws it as well.

With --kernels, measure each kernel alone: products with -p tokens for each type of
weights, from memory and from the caches, attention of -p tokens at depth -d for
each -ctk, norms, and the packing of weights. The roof of a product is the time to
read its weights or to multiply at the 8-bit peak; from the caches, the latter; of
packing, the time to copy as many bytes.

With --speculate P,..., say what draft tokens are worth that are right with these
chances: texts of -n tokens after prompts of -p are generated without drafts, then
again with drafts of which so many are right, by --streams at a time. The bound
is the best number of drafts by the times of passes measured before.

With --synth, write a model with random weights instead, as large and as fast as
a real one: ` + strings.Join(synth.Shapes(), " ") + `,
in ` + strings.Join(synth.Mixes(), " ") + `.`,
		Example: `  quern bench -m model.gguf
  quern bench -m model.gguf -p 512,1-8 -n 128 -t 1,2 -o json
  quern bench --curve -m model.gguf -p 1-16,32
  quern bench --profile --profile-svg profile.svg -m model.gguf -p 512 -n 32
  quern bench --kernels --types q4_k,q6_k -p 1,8,512 -t 1,2
  quern bench --speculate 0.5,0.7,0.9 --streams 1,4,16 -m model.gguf
  quern bench --synth llama-3.2-1b:Q4_K_M -o model.gguf`,
		Args: flagsAlone,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd)
		}),
	}
	f.define(cmd.Flags())
	return cmd
}

// locate replaces the names of models by the paths of their files.
func (f *benchFlags) locate(cmd *cobra.Command) error {
	other, err := f.hub.named()
	if err != nil {
		return err
	}
	if other != "" {
		f.models = append(f.models, other)
	}
	for i, name := range f.models {
		at, err := f.hub.locate(cmd, name, other != "" && i == len(f.models)-1)
		if err != nil {
			return err
		}
		f.models[i] = at.path
	}
	return nil
}

func (f *benchFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	one := func(s ...string) []string { return s }
	types := kvcache.TypeNames()
	wordsVar(fs, &f.models, "model", "m", nil, acceptModel, "GGUF files, or models to download, such as hf.co/ORG/REPO; demo is the model inside the program")
	f.hub.define(fs)
	listVar(fs, &f.prompt, "n-prompt", "p", []int{512}, 0, maxTokens, "tokens of the prompt; 0 is no such test")
	listVar(fs, &f.gen, "n-gen", "n", []int{128}, 0, maxTokens, "tokens to generate; 0 is no such test")
	fs.Var(&f.promptGen, "prompt-gen", "a prompt, then tokens generated after it")
	alias(fs, "prompt-gen", "pg")
	listVar(fs, &f.depth, "n-depth", "d", []int{0}, 0, maxTokens, "tokens before the test")
	listVar(fs, &f.batch, "batch-size", "b", []int{2048}, 1, maxTokens, "tokens of a prompt handed over at a time")
	listVar(fs, &f.ubatch, "ubatch-size", "", []int{512}, 1, maxTokens, "tokens of a forward pass, at most")
	alias(fs, "ubatch-size", "ub")
	wordsVar(fs, &f.typeK, "cache-type-k", "", types[:1], acceptKVType, "type of the keys: "+strings.Join(types, ", "))
	alias(fs, "cache-type-k", "ctk")
	wordsVar(fs, &f.typeV, "cache-type-v", "", types[:1], acceptKVType, "type of the values")
	alias(fs, "cache-type-v", "ctv")
	wordsVar(fs, &f.flashAttn, "flash-attn", "", one("auto"), acceptFlashAttn, "auto or 1: attention is fused in any case")
	alias(fs, "flash-attn", "fa")
	listVar(fs, &f.threads, "threads", "t", nil, 1, kernel.MaxThreads, "threads (default: as many as \"quern doctor\" says)")
	intVar(fs, &f.reps, "repetitions", "r", 5, 1, math.MaxInt32, "times to repeat each test")
	fs.StringVarP(&f.output, "output", "o", "md", "`FORMAT` of the output: md, json, jsonl or csv; with --synth the file to write")
	fs.BoolVar(&f.noWarmup, "no-warmup", false, "skip the run before each test that is not counted")
	fs.BoolVar(&f.noRoofline, "no-roofline", false, "skip the measurement of what the machine allows")
	choiceVar(fs, &f.weights, "weights", "auto", []string{"auto", "packed", "mapped", "streamed"}, "how weights lie in memory")
	bytesVar(fs, &f.memory, "memory", "limit on memory, such as 4G (default: what \"quern doctor\" says)")
	fs.BoolVar(&f.profile, "profile", false, "where the time goes, by operation")
	fs.StringVar(&f.profileSVG, "profile-svg", "", "with --profile, draw it into a `FILE`, which is replaced")
	fs.BoolVar(&f.curve, "curve", false, "what more tokens in a pass cost: passes of -p tokens, beside one of 1")
	fs.BoolVar(&f.kernels, "kernels", false, "measure each kernel alone, without a model")
	wordsVar(fs, &f.types, "types", "", nil, acceptWeightType, "with --kernels, types of weights (default: all)")
	fs.Var((*chancesValue)(&f.speculate), "speculate", "what drafts are worth that are right with `CHANCES` such as 0.5,0.7,0.9; 0.5+0.4: and second guesses where the first are wrong")
	listVar(fs, &f.streams, "streams", "", []int{1}, 1, 64, "with --speculate, texts at a time")
	fs.StringVar(&f.synth, "synth", "", "write a model with random weights, `SHAPE:TYPE`")
	intVar(fs, &f.seed, "seed", "", 0, 0, math.MaxInt64, "seed of the random weights")
	fs.BoolVar(&f.force, "force", false, "with --synth, replace a file that exists")
	llamaflags.Define(fs, llamaflags.Bench)
}

func (f *benchFlags) changed(flag string) bool { return f.flags.Changed(flag) }

func acceptKVType(s string) error {
	_, err := kvcache.ParseType(s)
	return err
}

func (f *benchFlags) run(ctx context.Context, cmd *cobra.Command) error {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	for _, line := range llamaflags.Warnings(f.flags) {
		notes(stderr)(line)
	}
	if f.synth != "" {
		return f.writeSynth(ctx, stderr)
	}
	f.output = strings.ToLower(f.output)
	switch {
	case !slices.Contains(bench.Formats, f.output):
		return usagef("--output %q: want one of %s; a file name goes with --synth", f.output, strings.Join(bench.Formats, " "))
	case f.force || f.changed("seed"):
		return usagef("--force and --seed go with --synth")
	case f.changed("profile-svg") && !f.profile:
		return usagef("--profile-svg goes with --profile")
	case f.profile && (f.curve || f.kernels):
		return usagef("--profile measures tests of models; leave --curve and --kernels out")
	case f.speculate != nil && (f.curve || f.kernels || f.profile):
		return usagef("--speculate generates texts; leave --curve, --kernels and --profile out")
	case f.speculate == nil && f.changed("streams"):
		return usagef("--streams goes with --speculate")
	case f.kernels:
		return f.measureKernels(ctx, f.to(stdout))
	case f.changed("types"):
		return usagef("--types goes with --kernels")
	}
	if f.curve {
		if err := f.planCurve(); err != nil {
			return err
		}
	}
	if f.speculate != nil {
		if err := f.planSpeculation(); err != nil {
			return err
		}
	}
	if len(f.cases()) == 0 {
		return usagef("nothing to measure: -p and -n are 0; give one of them a number of tokens")
	}
	if err := f.locate(cmd); err != nil {
		return err
	}
	if len(f.models) == 0 {
		f.models = []string{demo.Name}
		notes(stderr)(demoNote)
	}
	return f.measureModels(ctx, f.to(stdout), stderr)
}

// to returns the output that the flags select.
func (f *benchFlags) to(w io.Writer) bench.Output {
	return bench.Output{W: w, Format: f.output, Roofline: !f.noRoofline, Commit: readBuild().Commit}
}

// machine reads the machine's properties, which set the number of threads if no flag does.
func (f *benchFlags) machine() (*machine.Machine, error) {
	m, err := machine.Read()
	if err == nil && len(f.threads) == 0 {
		f.threads = []int{m.Threads()}
	}
	return m, err
}

func (f *benchFlags) measureModels(ctx context.Context, out bench.Output, stderr io.Writer) error {
	m, err := f.machine()
	if err != nil {
		return err
	}
	if _, err := chooseKernels(); err != nil {
		return err
	}
	plan, err := f.plan(m, stderr)
	if err != nil {
		return err
	}
	return plan.Run(ctx, out)
}

// measureKernels implements "quern bench --kernels".
func (f *benchFlags) measureKernels(ctx context.Context, out bench.Output) error {
	todo, err := f.kernelBench()
	if err != nil {
		return err
	}
	m, err := f.machine()
	if err != nil {
		return err
	}
	isa, err := chooseKernels()
	if err != nil {
		return err
	}
	todo.Budget = mem.NewBudget(engine.Limit(m, f.memory))
	k := bench.Kernels{Bench: todo, Threads: f.threads, Machine: m, ISA: isa}
	return k.Run(ctx, out)
}
