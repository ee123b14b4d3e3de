package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/quant"
)

// A quantizeTarget is how large a file is to be, in place of a mix.
type quantizeTarget struct {
	bpw         float32 // bits per weight; 0: none
	size        uint64  // bytes of the file; 0: none
	file        string  // text to measure tensors with; empty: they count alike
	ctx, chunks int
	trellis     bool // among the trellis types too
	flags       *pflag.FlagSet
}

func (t *quantizeTarget) define(fs *pflag.FlagSet) {
	t.flags = fs
	floatVar(fs, &t.bpw, "target-bpw", 0, 0.5, 32, "instead of TYPE: the types with the least loss at `X` bits per weight")
	fs.Lookup("target-bpw").DefValue = ""
	bytesVar(fs, &t.size, "target-size", "instead of TYPE: the types with the least loss in a file of this `SIZE`, such as 4G")
	fs.BoolVar(&t.trellis, "trellis", false, "choose for a target among the trellis types too, which llama.cpp does not read")
	fs.StringVarP(&t.file, "file", "f", "", "`TEXT` on which to measure how much each tensor counts for a target; it takes time and room for a copy of IN")
	intVar(fs, &t.ctx, "ctx-size", "c", 512, eval.MinCtx, 1<<28, "tokens per chunk of it, or of --calibration")
	intVar(fs, &t.chunks, "chunks", "", 4, -1, 1<<30, "chunks of it to read; 0 or -1 is all")
}

// given reports whether there is a target.
func (t *quantizeTarget) given() bool { return t.bpw > 0 || t.size > 0 }

// check refuses flags that contradict each other. calibrated: a text is read for the method.
func (t *quantizeTarget) check(pure, calibrated bool) error {
	switch {
	case t.bpw > 0 && t.size > 0:
		return usagef("--target-bpw and --target-size together; give one of them")
	case t.given() && pure:
		return usagef("--pure: one type for all tensors leaves nothing to choose for %s; leave one out", t.name())
	case t.given():
		return nil
	}
	if t.trellis {
		return usagef("--trellis: types are chosen for --target-bpw and --target-size alone; give one of them, or name the type")
	}
	for _, flag := range []string{"file", "ctx-size", "chunks"} {
		if t.flags.Changed(flag) && !(calibrated && flag == "ctx-size") {
			return usagef("--%s: a text is read for --target-bpw and --target-size alone", flag)
		}
	}
	return nil
}

// name returns the flag as it was given.
func (t *quantizeTarget) name() string {
	if t.size > 0 {
		return "--target-size " + t.flags.Lookup("target-size").Value.String()
	}
	return "--target-bpw " + strconv.FormatFloat(float64(t.bpw), 'g', -1, 32)
}

// autoKind stands for TYPE where there is a target.
const autoKind = "auto"

// arguments reads IN [OUT] [auto] [THREADS]: what is left are the threads.
func (t *quantizeTarget) arguments(args []string) (in, out string, rest []string, err error) {
	in, rest = args[0], args[1:]
	out = filepath.Join(filepath.Dir(in), "ggml-model-"+autoKind+".gguf")
	if len(rest) > 0 && !isKind(rest[0]) && rest[0] != autoKind {
		out, rest = rest[0], rest[1:]
	}
	switch {
	case len(rest) > 0 && rest[0] == autoKind:
		rest = rest[1:]
	case len(rest) > 0 && isKind(rest[0]) && !isNumber(rest[0]):
		return "", "", nil, usagef("%s and the type %s together; leave one out", t.name(), rest[0])
	}
	return in, out, rest, nil
}

func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// choose chooses the types of a job.
func (t *quantizeTarget) choose(cmd *cobra.Command, job *quant.Job, in, out string, o quant.Options) error {
	bar := newLoadBar(cmd.ErrOrStderr())
	var whole uint64
	for i := range job.From.Tensors {
		whole += uint64(len(job.From.Tensors[i].Data))
	}
	job.Done = func(n uint64) { bar.update(n, whole) }
	o.Trellis = t.trellis
	a, err := quant.NewAllocation(cmd.Context(), job, o)
	bar.done()
	job.Done = nil
	if err != nil {
		return err
	}
	budget, err := t.budget(job, a)
	if err != nil {
		return err
	}
	if t.file != "" {
		job.Choices = a.Fill(budget)
		if err := t.probe(cmd, job, a, in, filepath.Dir(out)); err != nil {
			return fmt.Errorf("--file %s: %w", t.file, err)
		}
		if budget, err = t.budget(job, a); err != nil {
			return err
		}
	}
	job.Choices = a.Fill(budget)
	job.Mix = quant.MixOf(job.Choices)
	return nil
}

// probe measures how much the tensors of a job count on the text. A copy of the model is in dir meanwhile.
func (t *quantizeTarget) probe(cmd *cobra.Command, job *quant.Job, a *quant.Allocation, in, dir string) error {
	text, err := readFile(t.file)
	if err != nil {
		return err
	}
	d, err := newDivergence(cmd, in, text, t.ctx, t.chunks, job.Threads)
	if err != nil {
		return err
	}
	defer d.close()
	bar := newLoadBar(cmd.ErrOrStderr())
	defer bar.done()
	p := quant.Probe{Job: job, From: a, Evaluator: d, Progress: bar.update}
	return p.Run(cmd.Context(), dir)
}

// budget returns how many bytes tensors may have together.
func (t *quantizeTarget) budget(job *quant.Job, a *quant.Allocation) (uint64, error) {
	least, most := a.Bounds()
	hint := ""
	if job.Importance == nil {
		hint = "; with --imatrix there are smaller types"
	}
	if t.size > 0 {
		return t.inFile(job, a, hint)
	}
	elems := float64(a.Elems())
	bits := func(n uint64) float64 { return 8 * float64(n) / elems }
	switch want := float64(t.bpw); {
	case want < bits(least):
		return 0, fmt.Errorf("%s is too small: at least %.4f bits per weight can be made%s", t.name(), bits(least)+0.00005, hint)
	case want > bits(most)+0.0001:
		return 0, fmt.Errorf("%s is too large: at most %.4f bits per weight can be made", t.name(), bits(most))
	}
	return uint64(float64(t.bpw) * elems / 8), nil
}

// inFile returns how many bytes tensors may have together in a file of the target's size.
func (t *quantizeTarget) inFile(job *quant.Job, a *quant.Allocation, hint string) (uint64, error) {
	least, most := a.Bounds()
	with := func(budget uint64) (uint64, error) {
		job.Choices = a.Fill(budget)
		return job.FileBytes()
	}
	smallest, err := with(least)
	if err != nil {
		return 0, err
	}
	largest, err := with(most)
	switch {
	case err != nil:
		return 0, err
	case t.size < smallest:
		return 0, fmt.Errorf("%s is too small: at least %s can be made (%d bytes)%s", t.name(), mem.FormatBytes(smallest), smallest, hint)
	case t.size > largest:
		return 0, fmt.Errorf("%s is too large: at most %s can be made (%d bytes)", t.name(), mem.FormatBytes(largest), largest)
	}
	// What aligns tensors depends on their types, so less may fit.
	for budget := min(t.size-(smallest-least), most); budget > least; {
		n, err := with(budget)
		if err != nil || n <= t.size {
			return budget, err
		}
		budget -= min(n-t.size, budget-least)
	}
	return least, nil
}

// targetHelp is what the command's help says of targets.
var targetHelp = strings.TrimSpace(`
With --target-bpw or --target-size, the types of tensors are chosen for the least
loss at that size. Omit TYPE then, or use "auto".`)
