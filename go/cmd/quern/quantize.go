package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
)

// quantizeFlags are the flags of "quern quantize".
type quantizeFlags struct {
	matrix, output, embedding  string
	types, include, exclude    []string
	typeFile                   string
	set                        launch.Overrides
	pure, leave, requantize    bool
	keepSplit, dryRun, replace bool
	threads                    int
	target                     quantizeTarget
	method                     quantizeMethod
}

func newQuantizeCommand() *cobra.Command {
	var (
		f       quantizeFlags
		options quant.Options
	)
	cmd := &cobra.Command{
		Use:   "quantize IN [OUT] [TYPE] [THREADS]",
		Short: "Quantize a model",
		Long: `Quantize a model, with output byte-identical to llama-quantize's: TYPE is a mix that
chooses a type for each tensor. With an importance matrix (see "quern imatrix")
errors are weighted by their effect; types below three bits need one. With --method
gptq the file has the same types, readable by any program that knows them, and is
closer to the original; this needs a calibration text.

Without OUT the file is called ggml-model-TYPE.gguf, beside IN. Memory use is small
for any model, and OUT is written atomically.

` + targetHelp + `

Types: ` + strings.Join(quant.Mixes(), " ") + `, and COPY.`,
		Example: `  quern quantize model-f16.gguf model-Q4_K_M.gguf Q4_K_M
  quern quantize --imatrix model.imatrix model-f16.gguf model-IQ3_XXS.gguf IQ3_XXS
  quern quantize --dry-run model-f16.gguf Q4_K_M
  quern quantize --method gptq --calibration text.txt model-f16.gguf model-Q3_K_M.gguf Q3_K_M
  quern quantize --tensor-type attn_v=Q8_0 --output-tensor-type Q8_0 in.gguf out.gguf Q4_K_M
  quern quantize --target-bpw 4.5 --imatrix model.imatrix model-f16.gguf model-4.5.gguf`,
		Args: arguments(1, 4),
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if _, _, _, err = f.arguments(args); err != nil {
				return err
			}
			options, err = f.options()
			return err
		},
		RunE: interruptible(func(cmd *cobra.Command, args []string) error {
			in, out, kind, err := f.arguments(args) // IN is a file now
			if err != nil {
				return err
			}
			return f.run(cmd, in, out, kind, options)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.matrix, "imatrix", "", "importance matrix, a `FILE` of \"quern imatrix\" or llama-imatrix")
	fs.StringArrayVar(&f.include, "include-weights", nil, "use the importance matrix only for tensors whose names contain `PART`")
	fs.StringArrayVar(&f.exclude, "exclude-weights", nil, "do not use the importance matrix for tensors whose names contain `PART`")
	fs.StringArrayVar(&f.types, "tensor-type", nil, "`PATTERN=TYPE` for tensors whose names match a regular expression; the first match applies")
	fs.StringVar(&f.typeFile, "tensor-type-file", "", "`FILE` of such patterns, separated by spaces or lines")
	fs.StringVar(&f.output, "output-tensor-type", "", "`TYPE` of output.weight")
	fs.StringVar(&f.embedding, "token-embedding-type", "", "`TYPE` of token_embd.weight")
	fs.BoolVar(&f.leave, "leave-output-tensor", false, "leave output.weight unchanged")
	f.target.define(fs)
	f.method.define(fs)
	fs.BoolVar(&f.pure, "pure", false, "one type for all tensors, instead of a mix")
	fs.BoolVar(&f.requantize, "allow-requantize", false, "accept tensors that are already quantized; their errors remain")
	fs.BoolVar(&f.keepSplit, "keep-split", false, "write as many files as IN has")
	fs.Var((*overrideValue)(&f.set), "override-kv", "set metadata: `KEY=TYPE:VALUE`, TYPE is int, float, bool or str; repeatable, or comma-separated")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be written")
	fs.BoolVar(&f.replace, "force", false, "replace an existing OUT")
	intVar(fs, &f.threads, "threads", "t", 0, 0, 1<<10, "threads (default: one per CPU)")
	return cmd
}

// copyKind is the name under which nothing is quantized.
const copyKind = "COPY"

// arguments reads IN [OUT] TYPE [THREADS].
func (f *quantizeFlags) arguments(args []string) (in, out, kind string, err error) {
	if err := f.method.check(); err != nil {
		return "", "", "", err
	}
	if err := f.target.check(f.pure, f.method.method() == quant.GPTQ); err != nil {
		return "", "", "", err
	}
	in, rest := args[0], args[1:]
	if f.target.given() {
		if in, out, rest, err = f.target.arguments(args); err != nil {
			return "", "", "", err
		}
	} else if len(rest) == 0 {
		return "", "", "", usagef("no type; give one, or --target-bpw or --target-size")
	} else if isKind(rest[0]) {
		kind, rest = rest[0], rest[1:]
		out = filepath.Join(filepath.Dir(in), "ggml-model-"+strings.ToUpper(kind)+".gguf")
	} else if len(rest) > 1 {
		out, kind, rest = rest[0], rest[1], rest[2:]
		if _, err := quant.ParseMix(kind); err != nil && !isKind(kind) {
			return "", "", "", usagef("%w", err)
		}
	} else {
		_, err := quant.ParseMix(rest[0])
		return "", "", "", usagef("%w", err)
	}
	if len(rest) == 1 {
		n, err := strconv.Atoi(rest[0])
		if err != nil || n < 1 || n > 1<<10 {
			return "", "", "", usagef("%q threads, want a number from 1 to %d", rest[0], 1<<10)
		}
		f.threads = n
	} else if len(rest) > 1 {
		return "", "", "", usagef("%d arguments too many after the type", len(rest)-1)
	}
	return in, out, kind, nil
}

func isKind(s string) bool {
	_, err := quant.ParseMix(s)
	return err == nil || strings.EqualFold(s, copyKind)
}

func (f *quantizeFlags) run(cmd *cobra.Command, in, out, kind string, options quant.Options) error {
	file, err := openFile(in)
	if err != nil {
		return err
	}
	defer file.Close()
	job := &quant.Job{From: file.GGUF, Requantize: f.requantize, Release: file.Drop}
	if job.Threads, err = f.useThreads(); err != nil {
		return err
	}
	job.Set = f.set.Keys()
	for _, o := range options.Overrides {
		if !slices.ContainsFunc(file.GGUF.Tensors, func(t gguf.Tensor) bool { return o.Pattern.MatchString(t.Name) }) {
			notes(cmd.ErrOrStderr())(fmt.Sprintf("--tensor-type: no tensor's name matches %q", o.Pattern))
		}
	}
	if f.matrix != "" {
		if err := f.readMatrix(job); err != nil {
			return err
		}
		options.Importance = job.Importance
	}
	if f.target.given() {
		err = f.target.choose(cmd, job, in, out, options)
	} else {
		err = f.choose(job, kind, options)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if err := job.Check(); err != nil && !f.dryRun {
		return fmt.Errorf("%s: %w", in, err)
	}
	if job.Method = f.method.method(); job.Method != quant.Fast {
		job.Set = append(job.Set, gguf.KV{Key: "quantize.method", Value: job.Method.String()})
	}
	if job.Method == quant.GPTQ && !f.dryRun {
		c, err := f.method.calibrate(cmd, job, in, f.target.ctx)
		if err != nil {
			return err
		}
		defer c.close()
	}
	lines, total, err := choiceLines(job)
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	if f.dryRun {
		total = strings.Join(lines, "\n") + "\n" + total
	} else if err := f.write(cmd, file, job, in, out, func(c *quant.Choice, took time.Duration) {
		i := slices.IndexFunc(job.Choices, func(of quant.Choice) bool { return of.Tensor == c.Tensor })
		fmt.Fprintf(stdout, "%s, %.2f s\n", lines[i], took.Seconds()) // where that fails the last line fails as well
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, total)
	return err
}

func (f *quantizeFlags) useThreads() (int, error) {
	if f.threads > 0 {
		return f.threads, nil
	}
	m, err := machine.Read()
	if err != nil {
		return 0, err
	}
	return max(len(m.CPUs), 1), nil
}

// options reads the flags about types.
func (f *quantizeFlags) options() (o quant.Options, err error) {
	if len(f.include) > 0 && len(f.exclude) > 0 {
		return o, usagef("--include-weights and --exclude-weights together; give one of them")
	}
	o.Pure, o.LeaveOutput = f.pure, f.leave
	for _, one := range []struct {
		flag, value string
		to          **gguf.Type
	}{{"output-tensor-type", f.output, &o.Output}, {"token-embedding-type", f.embedding, &o.Embedding}} {
		if one.value == "" {
			continue
		}
		t, err := quant.ParseType(one.value)
		if err != nil {
			return o, usagef("--%s: %w", one.flag, err)
		}
		*one.to = &t
	}
	types := f.types
	if f.typeFile != "" {
		text, err := readFile(f.typeFile)
		if err != nil {
			return o, err
		}
		types = append(types, strings.Fields(string(text))...)
	}
	for _, s := range types {
		pattern, name, ok := strings.Cut(s, "=")
		if !ok || pattern == "" {
			return o, usagef("--tensor-type %q, want PATTERN=TYPE, such as attn_v=Q8_0", s)
		}
		t, err := quant.ParseType(name)
		if err != nil {
			return o, usagef("--tensor-type %s: %w", s, err)
		}
		re, err := regexp.Compile(strings.ToLower(pattern))
		if err != nil {
			return o, usagef("--tensor-type %s: %w", s, err)
		}
		o.Overrides = append(o.Overrides, quant.Override{Pattern: re, Type: t})
	}
	return o, nil
}

// readMatrix reads the importance matrix, and notes in the metadata what it was.
func (f *quantizeFlags) readMatrix(job *quant.Job) error {
	m, err := quant.ReadMatrix(f.matrix)
	if err != nil {
		return err
	}
	if job.Importance, err = m.Importance(); err != nil {
		return fmt.Errorf("%s: %w", f.matrix, err)
	}
	if len(f.exclude) > 0 {
		job.Importance.Without(f.exclude)
	}
	if len(f.include) > 0 {
		job.Importance.Only(f.include)
	}
	if len(job.Importance) == 0 {
		return fmt.Errorf("%s: no entries are left", f.matrix)
	}
	job.Set = append(job.Set, gguf.KV{Key: "quantize.imatrix.file", Value: f.matrix})
	if len(m.Datasets) > 0 {
		job.Set = append(job.Set, gguf.KV{Key: "quantize.imatrix.dataset", Value: m.Datasets[0]})
	}
	job.Set = append(job.Set, gguf.KV{Key: "quantize.imatrix.entries_count", Value: uint32(len(job.Importance))})
	if m.Chunks > 0 {
		job.Set = append(job.Set, gguf.KV{Key: "quantize.imatrix.chunks_count", Value: uint32(m.Chunks)})
	}
	return nil
}

func (f *quantizeFlags) choose(job *quant.Job, kind string, o quant.Options) (err error) {
	if !strings.EqualFold(kind, copyKind) {
		if job.Mix, err = quant.ParseMix(kind); err != nil {
			return err
		}
		job.Choices, err = quant.Choose(job.From, job.Mix, o)
		return err
	}
	job.Choices, err = quant.Choose(job.From, quant.Mix{}, quant.Options{})
	for i := range job.Choices {
		job.Choices[i].To = job.Choices[i].Type
	}
	if n, uintErr := job.From.Uint("general.file_type"); uintErr == nil {
		job.Mix.Kind = uint32(min(n, 1<<16))
	}
	return err
}

// choiceLines returns a line for each tensor, and one about the sizes.
func choiceLines(job *quant.Job) (lines []string, total string, err error) {
	var before, after, elems uint64
	fell := 0
	for i, c := range job.Choices {
		size, err := c.To.Size(c.Dims)
		if err != nil {
			return nil, "", fmt.Errorf("tensor %s: %w", c.Name, err)
		}
		before, after, elems = before+uint64(len(c.Data)), after+size, elems+c.Elems()
		line := fmt.Sprintf("[%4d/%4d] %-36s %v, %v", i+1, len(job.Choices), visible(c.Name), c.Dims, c.Type)
		if c.To != c.Type {
			line += fmt.Sprintf(" -> %v", c.To)
		}
		if c.To != c.Wanted {
			fell++
			line += fmt.Sprintf(" (rows of %d do not fit %v)", c.Dims[0], c.Wanted)
		}
		lines = append(lines, line)
	}
	perWeight := func(n uint64) float64 { return float64(n) * 8 / float64(max(elems, 1)) }
	total = fmt.Sprintf("%s (%.2f bits per weight) -> %s (%.2f)", mem.FormatBytes(before), perWeight(before), mem.FormatBytes(after), perWeight(after))
	if fell > 0 {
		total += fmt.Sprintf("; %d of %d tensors are another type than wanted, since their rows do not fit it", fell, len(job.Choices))
	}
	return lines, total, nil
}

// write writes the file, or with --keep-split as many as there were, and says what is written.
func (f *quantizeFlags) write(cmd *cobra.Command, file *model.File, job *quant.Job, in, out string, wrote func(*quant.Choice, time.Duration)) error {
	bar := newBar(cmd.ErrOrStderr(), "quantizing")
	defer bar.done()
	job.Wrote = func(c *quant.Choice, took time.Duration) {
		bar.done() // it comes again with the next part
		wrote(c, took)
	}
	job.Done = func(n uint64) { bar.update(n, file.Size()) }
	paths := []string{out}
	if n := len(file.Paths); f.keepSplit && n > 1 {
		paths = nil
		for i := range n {
			paths = append(paths, gguf.ShardPath(strings.TrimSuffix(out, ".gguf"), i, n))
		}
	}
	if err := checkOutputs(paths, file.Paths); err != nil {
		return err
	}
	for i, path := range paths {
		_, err := newfile.Write(path, f.replace, 0o644, job.Bytes()/uint64(len(paths)), func(w io.Writer) (int64, error) {
			n, err := job.WriteShard(cmd.Context(), w, i, len(paths))
			return n, errors.Join(err, file.Damaged())
		})
		if err != nil {
			for _, written := range paths[:i] {
				os.Remove(written) // of no use without the rest
			}
		}
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w; --force replaces it", err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", in, err)
		}
	}
	return nil
}
