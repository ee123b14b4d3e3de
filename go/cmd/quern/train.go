package main

import (
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/finetune"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/scratch"
	"github.com/quern-llm/quern/go/train/data"
)

// trainFlags are the flags of "quern train": a new model is made, and fine-tuned.
type trainFlags struct {
	finetuneFlags
	config string
}

func newTrainCommand() *cobra.Command {
	f := trainFlags{finetuneFlags: finetuneFlags{settings: finetune.Defaults(), files: newFiles(), objective: "answers"}}
	s := &f.settings
	s.Rate, s.Beta2, s.Muon, s.MuonDecay, s.Epochs, s.Patience = 4e-3, 0.98, 0.02, 0.05, 1, 0
	cmd := &cobra.Command{
		Use:   "train --config FILE --data FILE... -o OUT.gguf",
		Short: "Train a small model from scratch",
		Long: `Train a model from nothing: its shape is a file of JSON, its vocabulary is learnt from
the examples, its weights are random at first. Matrices of layers are moved by Muon,
the rest by AdamW. Examples are as for "quern finetune"; texts without a prompt are
divided where they are longer than the context.

With --rounded TYPE passes multiply with weights rounded to the type, or mix of types, of
the file that is written, so that the model learns around its own rounding. To round only
at last, train without, and go on with "quern finetune --full TYPE".

The same command makes the same file on every CPU, with any number of threads. On Ctrl-C
the run is saved beside OUT, and --resume goes on from there.`,
		Example: `  quern train --config shape.json --data stories/ --steps 1000 -b 16384 -o small.gguf
  quern train --config shape.json --data stories/ --rounded Q4_K_M -o small-Q4_K_M.gguf
  quern run -m small.gguf -p "Once upon a time"`,
		Args: flagsAlone,
		RunE: interruptible(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "`FILE` with the model's shape, in JSON")
	f.defineExamples(fs)
	fs.StringVarP(&f.out, "output", "o", "", "`FILE` of GGUF to write")
	fs.StringVar(&s.Weights, "rounded", "F32", "`TYPE` that weights are rounded to in passes and in OUT: one that quern quantize makes")
	f.defineSteps(fs)
	f.device.defineThreads(fs)
	f.device.defineLimit(fs)
	return cmd
}

func (f *trainFlags) check() error {
	switch {
	case f.config == "":
		return usagef("no shape of a model; give a file with --config")
	case len(f.data) == 0:
		return usagef("no examples; give a file or folder with --data")
	case f.out == "" || f.isPEFT():
		return usagef("no file to write; give a FILE.gguf with -o")
	}
	if _, err := quant.ParseMix(f.settings.Weights); err != nil {
		return usagef("--rounded: %w", err)
	}
	return nil
}

func (f *trainFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	var file *os.File
	defer func() { file.Close() }() // nil: an error that nobody needs
	f.model, f.shape = "the new model", f.config
	f.made = func() (_ *model.File, err error) {
		if file, err = f.begin(cmd.OutOrStdout()); err != nil {
			return nil, err
		}
		return model.OpenFileAs(platform.Path(file), f.model)
	}
	return f.finetuneFlags.run(cmd)
}

// begin makes the model before training, as a file without a name. It is the same for the same flags, so --resume begins with
// it as well.
func (f *trainFlags) begin(out io.Writer) (*os.File, error) {
	in, err := os.Open(f.config)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	shape, err := scratch.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.config, err)
	}
	set, err := data.Read(f.data, data.Format(f.format))
	if err != nil {
		return nil, err
	}
	if len(set.Examples) == 0 {
		return nil, fmt.Errorf("--data has %s, and a new model learns from texts and answers", set.Kind())
	}
	w, err := shape.Model(textsOf(set), uint64(f.seed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.config, err)
	}
	f.known = set
	size, err := w.Size()
	if err != nil {
		return nil, err
	}
	file, err := newfile.Nameless(filepath.Dir(filepath.Clean(f.out)), size, w.WriteTo)
	if err == nil && !f.resume {
		_, err = fmt.Fprintf(out, "a new model, whose vocabulary was learnt from %s\n", count(len(set.Examples), "example"))
	}
	return file, err
}

// textsOf returns the texts of examples.
func textsOf(set *data.Set) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, x := range set.Examples {
			texts := []string{x.Prompt, x.Text}
			for _, t := range x.Turns {
				texts = append(texts, t.Content.String())
			}
			for _, s := range texts {
				if s != "" && !yield(s) {
					return
				}
			}
		}
	}
}
