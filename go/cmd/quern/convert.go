package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/convert/family"
	"github.com/quern-llm/quern/go/convert/projector"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
)

// convertFlags are the flags of "quern convert".
type convertFlags struct {
	out, typ, pre, base string
	skip                []string
	threads             int
	force, dry, mmproj  bool
}

func newConvertCommand() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert DIR",
		Short: "Convert a Hugging Face checkpoint or a LoRA adapter to GGUF",
		Long: `Convert the checkpoint in a folder to GGUF: config.json, weights in safetensors,
single or in shards, and the tokenizer. llama.cpp reads the file too. A folder with
adapter_config.json is a PEFT LoRA adapter and becomes a GGUF adapter; --base names
the folder of its base model, of which only config.json is read. A file of whisper.cpp
(ggml-*.bin) is taken in place of a folder.

With --mmproj it is the encoders of pictures and sounds that are written, as a file
mmproj-*.gguf that goes beside the text model.

Weights are processed in pieces: a model of any size takes a few hundred megabytes
of memory. The file is written atomically.

Architectures: ` + strings.Join(family.Known(), ", ") + `.

Those with a projector: ` + strings.Join(projector.Known(), ", ") + `.`,
		Example: `  quern convert Qwen3-8B --outtype q8_0
  quern convert Qwen3-VL-4B-Instruct --mmproj --outtype q8_0
  quern convert Qwen3-8B --outtype Q4_K_M -o qwen3-8b.gguf
  quern convert my-adapter --base Qwen3-8B -o my-adapter.gguf`,
		Args: arguments(1, 1),
		RunE: interruptible(func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	fs := cmd.Flags()
	fs.StringVarP(&f.out, "outfile", "o", "", "the `FILE` to write (default: the folder's name and the type, here)")
	fs.StringVar(&f.typ, "outtype", "auto", "`TYPE` of the matrices: f32, f16, bf16, q8_0, a mix of \"quern quantize\" such as Q4_K_M, or auto: the type of most of the checkpoint")
	fs.BoolVar(&f.mmproj, "mmproj", false, "write the encoders of pictures and sounds, the projector of the model")
	fs.StringVar(&f.base, "base", "", "`DIR` of the base model of an adapter")
	fs.StringVar(&f.pre, "pre", "", "`NAME` of the pre-tokenizer, if it cannot be determined from tokenizer.json")
	fs.StringArrayVar(&f.skip, "skip", nil, "`TENSOR` to omit; repeatable")
	fs.BoolVar(&f.force, "force", false, "replace an existing file")
	fs.BoolVar(&f.dry, "dry-run", false, "list the tensors that would be written, without writing")
	intVar(fs, &f.threads, "threads", "t", 0, 1, 1<<10, "threads (default: see \"quern doctor\")")
	return cmd
}

// A converted is a checkpoint or an adapter that can be written.
type converted interface {
	Name() string
	Size() uint64
	Tensors(visit func(name string, typ gguf.Type, dims []uint64))
	WriteFile(ctx context.Context, path string, replace bool) (int64, error)
	Close() error
}

// run implements "quern convert".
func (f *convertFlags) run(ctx context.Context, dir string, stdout, stderr io.Writer) error {
	if err := convert.CheckType(f.typ); err != nil {
		return usagef("--outtype: %w", err)
	}
	threads, err := threadsOr(f.threads)
	if err != nil {
		return err
	}
	bar := newBar(stderr, "converting")
	defer bar.done()
	c, err := f.open(dir, convert.Options{Type: f.typ, Pre: f.pre, Skip: f.skip, Threads: threads, Progress: bar.update}, stderr)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.dry {
		return listTensors(stdout, c)
	}
	out := f.out
	if out == "" {
		out = c.Name() + ".gguf"
	}
	n, err := c.WriteFile(ctx, out, f.force)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	bar.done()
	if m, ok := c.(*convert.Model); ok && m.Loss() != "" {
		notes(stderr)(m.Loss())
	}
	_, err = fmt.Fprintf(stdout, "%s: %s\n", visible(out), mem.FormatBytes(uint64(n)))
	return err
}

// open opens a folder: that of an adapter, or of a checkpoint.
func (f *convertFlags) open(dir string, o convert.Options, stderr io.Writer) (converted, error) {
	if convert.IsWhisperCpp(dir) {
		if f.mmproj || f.typ != "auto" {
			return nil, usagef("%s is of whisper.cpp, whose weights keep their types; leave out --mmproj and --outtype, "+
				"and see \"quern quantize\"", dir)
		}
		m, err := convert.OpenWhisperCpp(dir)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	switch adapter := convert.IsAdapter(dir); {
	case adapter && f.mmproj:
		return nil, usagef("--mmproj: %s has an adapter, which has no projector", dir)
	case f.mmproj:
		m, err := convert.OpenProjector(dir, o)
		if err != nil {
			return nil, err
		}
		return m, nil
	case adapter:
		a, err := convert.OpenAdapter(dir, f.base, o)
		if err != nil {
			return nil, err // not a non-nil converted that holds nil
		}
		return a, nil
	}
	m, err := convert.Open(dir, o)
	if err != nil {
		return nil, err
	}
	if keys := m.Unknown(); len(keys) > 0 {
		more := ""
		if n := len(keys) - 10; n > 0 {
			keys, more = keys[:10], fmt.Sprintf(" and %d more", n)
		}
		notes(stderr)("config.json has keys that are not known, and may change what the model computes: " +
			visible(strings.Join(keys, " ")) + more)
	}
	if convert.HasProjector(dir) {
		notes(stderr)("this is the text model; convert with --mmproj too for its encoders of pictures or sounds")
	}
	return m, nil
}

// threadsOr returns n, or if it is 0 what the machine has.
func threadsOr(n int) (int, error) {
	if n > 0 {
		return n, nil
	}
	m, err := machine.Read()
	if err != nil {
		return 0, err
	}
	return m.Threads(), nil
}

// listTensors prints what would be written.
func listTensors(out io.Writer, c converted) error {
	var b strings.Builder
	c.Tensors(func(name string, typ gguf.Type, dims []uint64) {
		fmt.Fprintf(&b, "%-48s %-5s %v\n", visible(name), typ, dims)
	})
	fmt.Fprintf(&b, "%s of weights\n", mem.FormatBytes(c.Size()))
	_, err := io.WriteString(out, b.String())
	return err
}
