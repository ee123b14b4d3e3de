package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/verify"
)

// errBits reports a machine, or a build, whose results differ from the table.
var errBits = errors.New("this machine does not compute the bits of the table; please report it with the lines above and the output of \"quern doctor\"")

type verifyFlags struct {
	model   string
	prompt  string
	predict int
	kv      string
	bits    string // of activations
	expect  string
	place   placeFlags
	threads int
	ranks   int
	split   string
}

func newVerifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that this machine computes the same bits as all others",
		Long: `Check that this machine computes the same bits as all others: each of its instruction
sets runs the models of a published table, and must reproduce the same tokens and
logits, and what a few steps of training make of some, bit for bit. QUERN_ISA
restricts the sets.

With -m, print the row of another model as a line of JSON: the continuation of a
prompt, and a hash of all logits. The line is the same on every machine, so two
machines can be compared, also by --expect.

--ranks divides the models as "serve --ranks" divides one among machines, whose bits
are those of one machine as well.`,
		Example: `  quern verify
  quern verify -m model.gguf
  quern verify -m model.gguf --expect 3f5a...
  quern verify --ranks 4`,
		Args: flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.model == "" {
				for _, name := range []string{"prompt", "predict", "kv", "activations", "expect"} {
					if cmd.Flags().Changed(name) {
						return usagef("--%s is for a model of yours; name it with -m FILE", name)
					}
				}
				return f.table(cmd.Context(), cmd.OutOrStdout())
			}
			return f.row(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f.define(cmd.Flags())
	return cmd
}

func (f *verifyFlags) define(fs *pflag.FlagSet) {
	modelVar(fs, &f.model, "GGUF `FILE` whose row is printed; demo is the embedded demo model")
	fs.StringVarP(&f.prompt, "prompt", "p", "The quick brown fox jumps over the lazy dog.", "`TEXT` that it continues")
	intVar(fs, &f.predict, "predict", "n", 16, 1, 1<<12, "tokens to generate")
	choiceVar(fs, &f.kv, "kv", kvcache.I16.String(), kvcache.TypeNames(), "type of keys and values")
	choiceVar(fs, &f.bits, "activations", "8", []string{"8", "16"}, "bits of what quantized weights are multiplied with")
	fs.StringVar(&f.expect, "expect", "", "`HASH` that the logits must have")
	intVar(fs, &f.ranks, "ranks", "", 1, 1, kernel.MaxRanks, "parts that models are divided in, as among machines; each is a thread or more of this process")
	choiceVar(fs, &f.split, "split", "rows", []string{"rows", "layers"}, "what each part has with --ranks: rows of each matrix, or whole layers")
	intVar(fs, &f.threads, "threads", "t", 0, 1, kernel.MaxThreads, "threads (default: see \"quern doctor\")")
	f.place.define(fs)
}

func (f *verifyFlags) device() launch.DeviceSettings {
	return launch.DeviceSettings{Threads: f.threads, Pinning: f.place.pinning, NUMA: f.place.mode(), Nodes: f.place.nodes}
}

func (f *verifyFlags) division() verify.Division {
	return verify.Division{Ranks: f.ranks, Layers: f.split == "layers"}
}

// table checks every row with every instruction set.
func (f *verifyFlags) table(ctx context.Context, out io.Writer) error {
	inUse, err := chooseKernels()
	if err != nil {
		return err
	}
	c, err := f.device().Config()
	if err != nil {
		return err
	}
	defer kernel.Init(inUse)
	rows, wrong := verify.Table(), 0
	fmt.Fprintf(out, "numeric profile %s: %d computations\n", verify.Profile(), len(rows))
	for _, isa := range kernel.Ladder(inUse) {
		kernel.Init(isa)
		start, right := time.Now(), 0
		for i := range rows {
			if err := rows[i].Check(ctx, c, f.division()); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				fmt.Fprintf(out, "%v: %v\n", isa, err)
				wrong++
				continue
			}
			right++
		}
		fmt.Fprintf(out, "%-40v %d of %d as published, %.1f s\n", isa, right, len(rows), time.Since(start).Seconds())
	}
	if wrong > 0 {
		return errBits
	}
	return nil
}

// row prints the result for one model.
func (f *verifyFlags) row(ctx context.Context, out io.Writer) error {
	kv, err := kvcache.ParseType(f.kv)
	if err != nil {
		return err
	}
	c, err := f.device().Config()
	if err != nil {
		return err
	}
	file, err := openFile(f.model)
	if err != nil {
		return err
	}
	tok, err := tokenizer.New(file.GGUF)
	if err != nil {
		file.Close()
		return fmt.Errorf("%s: %w", f.model, err)
	}
	prompt, err := encodePrompt(tok, f.prompt)
	if err != nil {
		file.Close()
		return err
	}
	r, err := verify.Compute(ctx, f.model, file, kv, f.bits == "16", prompt, f.predict, c, f.division())
	if err != nil {
		return err
	}
	line := struct {
		Profile string `json:"profile"`
		verify.Row
	}{verify.Profile(), r}
	if err := json.NewEncoder(out).Encode(line); err != nil {
		return err
	}
	if f.expect != "" && f.expect != r.Logits {
		return fmt.Errorf("%s: the logits have the hash %s, want %s", f.model, r.Logits, f.expect)
	}
	return nil
}
