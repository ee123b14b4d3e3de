package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// splitFlags are the flags of "quern split" and "quern join".
type splitFlags struct {
	tensors       int
	bytes         uint64
	headApart     bool
	split, merge  bool
	dryRun, force bool
}

func newSplitCommand() *cobra.Command {
	var f splitFlags
	cmd := &cobra.Command{
		Use:   "split IN OUT",
		Short: "Split a model into several files",
		Long: `Split a model into several files, with gguf-split's options and names: OUT is their
prefix, as in OUT-00001-of-00003.gguf. Programs accept any of them as the whole
model. "quern join" joins them again.`,
		Example: `  quern split model.gguf part --split-max-size 4G
  quern join part-00001-of-00003.gguf model.gguf`,
		Args: arguments(2, 2),
		PreRunE: func(*cobra.Command, []string) error {
			switch {
			case f.split && f.merge:
				return usagef("--split and --merge: give one")
			case !f.merge && f.bytes > 0 && f.tensors > 0:
				return usagef("--split-max-size and --split-max-tensors: give one")
			}
			return nil
		},
		RunE: interruptible(func(cmd *cobra.Command, args []string) error {
			if f.merge {
				return f.joinFile(cmd, args[0], args[1])
			}
			return f.splitFile(cmd, args[0], args[1])
		}),
	}
	fs := cmd.Flags()
	intVar(fs, &f.tensors, "split-max-tensors", "", 0, 1, gguf.MaxTensors, "maximum tensors per file (default: 128 without --split-max-size)")
	bytesVar(fs, &f.bytes, "split-max-size", "maximum bytes of tensors per file, such as 800M or 4G")
	fs.BoolVar(&f.headApart, "no-tensor-first-split", false, "put only the metadata into the first file")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be written, without writing")
	fs.BoolVar(&f.force, "force", false, "replace existing files")
	fs.BoolVar(&f.split, "split", false, "divide, as without it")
	fs.BoolVar(&f.merge, "merge", false, `join, as "quern join" does`)
	return cmd
}

func newJoinCommand() *cobra.Command {
	var f splitFlags
	cmd := &cobra.Command{
		Use:     "join IN OUT",
		Short:   "Join the files of a split model",
		Long:    `Join the files of a split model into one. IN is any of them. They are not changed.`,
		Example: `  quern join part-00001-of-00003.gguf model.gguf`,
		Args:    arguments(2, 2),
		RunE:    interruptible(func(cmd *cobra.Command, args []string) error { return f.joinFile(cmd, args[0], args[1]) }),
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be written, without writing")
	fs.BoolVar(&f.force, "force", false, "replace an existing file")
	return cmd
}

const defaultSplitTensors = 128

// splitFile writes the shards of a model.
func (f *splitFlags) splitFile(cmd *cobra.Command, in, prefix string) error {
	o := gguf.CutOptions{MaxTensors: f.tensors, MaxBytes: f.bytes, HeadApart: f.headApart}
	if f.bytes == 0 && f.tensors == 0 {
		o.MaxTensors = defaultSplitTensors
	}
	file, err := openRows(in)
	if err != nil {
		return err
	}
	defer file.Close()
	shards, err := gguf.Cut(file.GGUF, o)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	prefix = strings.TrimSuffix(prefix, ".gguf")
	var (
		paths []string
		sizes []uint64
		total uint64
	)
	for i, s := range shards {
		size, err := s.Size()
		if err != nil {
			return fmt.Errorf("%s: %w", in, err)
		}
		paths, sizes, total = append(paths, gguf.ShardPath(prefix, i, len(shards))), append(sizes, size), total+size
	}
	if err := checkOutputs(paths, file.Paths); err != nil {
		return err
	}
	if !f.dryRun {
		if err := newfile.CheckSpace(filepath.Dir(prefix), total); err != nil {
			return err
		}
	}
	for i, s := range shards {
		if err := f.writeModel(cmd.Context(), paths[i], sizes[i], file, s.Writer); err != nil {
			for _, written := range paths[:i] {
				if !f.dryRun {
					os.Remove(written) // of no use without the rest
				}
			}
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s\n", visible(paths[i]), count(s.Tensors, "tensor"), mem.FormatBytes(sizes[i]))
	}
	return nil
}

// joinFile writes a model of several files into one.
func (f *splitFlags) joinFile(cmd *cobra.Command, in, out string) error {
	file, err := openRows(in)
	if err != nil {
		return err
	}
	defer file.Close()
	if len(file.Paths) < 2 {
		return fmt.Errorf("%s is a whole model, nothing to join; give a file such as model-00001-of-00003.gguf", in)
	}
	if err := checkOutputs([]string{out}, file.Paths); err != nil {
		return err
	}
	w := gguf.Rewrite(file.GGUF)
	size, err := w.Size()
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if err := f.writeModel(cmd.Context(), out, size, file, w); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s\n", visible(out), count(len(file.GGUF.Tensors), "tensor"), mem.FormatBytes(size))
	return err
}

// openRows opens a model whose tensors are as other programs have them.
func openRows(name string) (*model.File, error) {
	file, err := openFile(name)
	if err == nil && file.Packed() {
		file.Close()
		return nil, fmt.Errorf("%s is packed, for Quern alone; give the file that it was made of", name)
	}
	return file, err
}

// writeModel writes a model of the tensors of file.
func (f *splitFlags) writeModel(ctx context.Context, path string, size uint64, file *model.File, w *gguf.Writer) error {
	if f.dryRun {
		return nil
	}
	_, err := newfile.Write(path, f.force, 0o644, size, func(out io.Writer) (int64, error) {
		n, err := w.WriteTo(endedWriter{ctx, out})
		if damage := file.Damaged(); damage != nil { // which explains any other error
			err = fmt.Errorf("%s: %w", file.Paths[0], damage)
		}
		return n, err
	})
	return orForce(path, err)
}
