package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/mem"
)

// packFlags are the flags of "quern pack".
type packFlags struct {
	modelFlags
	force, check bool
}

func newPackCommand() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use:   "pack IN OUT",
		Short: "Write a model in the memory layout of the kernels, for fast loading or streaming",
		Long: `Write a model in the memory layout of the kernels: matrices in panels, in order of
use, page-aligned, with checksums. A packed file is mapped and used in place, so the
first token is generated while the rest is still being read, and --weights streamed
reads it fastest. It is as large as the model, or three quarters of that where weights
are BF16 and the CPU has AVX-512: these take 12 bits then, without loss. Only programs
with the same panel layout can use it: keep the original file.

With --check, verify the checksums of a packed file.`,
		Example: `  quern pack model.gguf model.packed.gguf
  quern run -m model.packed.gguf --memory 5G "Once upon a time"
  quern pack --yes hf.co/ggml-org/gemma-3-1b-it-GGUF gemma.packed.gguf
  quern pack --check model.packed.gguf`,
		Args: arguments(1, 2),
		PreRunE: func(_ *cobra.Command, args []string) error {
			switch {
			case f.check && len(args) == 2:
				return usagef("--check takes one packed file, not two")
			case !f.check && len(args) == 1:
				return usagef("no file to write; give a second path, such as model.packed.gguf")
			}
			return nil
		},
		RunE: interruptible(func(cmd *cobra.Command, args []string) error {
			if f.check {
				return f.verify(cmd, args[0])
			}
			return f.run(cmd, args[0], args[1])
		}),
	}
	fs := cmd.Flags()
	f.flags = fs
	fs.BoolVar(&f.force, "force", false, "replace an existing output file")
	fs.BoolVar(&f.check, "check", false, "verify the checksums of a packed file")
	bytesVar(fs, &f.memory, "memory", "memory limit, such as 4G (default: see \"quern doctor\")")
	intVar(fs, &f.threads, "threads", "t", 0, 1, 1<<10, "threads (default: see \"quern doctor\")")
	f.cpus.define(fs)
	return cmd
}

func (f *packFlags) run(cmd *cobra.Command, in, out string) error {
	file, err := openFile(in)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := checkOutputs([]string{out}, file.Paths); err != nil {
		return err
	}
	d, err := f.device().Open()
	if err != nil {
		return err
	}
	defer d.Close()
	bar := newLoadBar(cmd.ErrOrStderr())
	defer bar.done()
	n, err := newfile.Write(out, f.force, 0o644, file.Size(), func(w io.Writer) (int64, error) {
		return d.PackFile(cmd.Context(), endedWriter{cmd.Context(), w}, file, bar.update)
	})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	bar.done()
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", visible(out), mem.FormatBytes(uint64(n)))
	return err
}

func (f *packFlags) verify(cmd *cobra.Command, path string) error {
	file, err := openFile(path)
	if err != nil {
		return err
	}
	defer file.Close()
	bar := newLoadBar(cmd.ErrOrStderr())
	err = file.Verify(bar.update)
	bar.done()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: all checksums match\n", visible(path))
	return err
}
