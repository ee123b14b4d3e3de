package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/quant"
)

// sameType is the word for the type that each tensor has already.
const sameType = "same"

// mergedType returns what a name of a type says of each merged tensor.
func mergedType(name string) (func(t *gguf.Tensor) gguf.Type, error) {
	switch name {
	case "":
		return model.AsFloats, nil
	case sameType:
		return func(t *gguf.Tensor) gguf.Type {
			if n := int(t.Dims[0]); !quant.CanEncode(t.Type, n) || quant.NeedsImportance(t.Type) {
				return model.AsFloats(t)
			}
			return t.Type
		}, nil
	}
	to, err := quant.ParseType(name)
	if err == nil && quant.NeedsImportance(to) {
		err = fmt.Errorf("%v needs an importance matrix; merge into floats and quantize these", to)
	}
	if err != nil {
		return nil, usagef("--type: %w", err)
	}
	return func(*gguf.Tensor) gguf.Type { return to }, nil
}

func newMergeLoraCommand() *cobra.Command {
	var (
		write  splitFlags
		out    string
		stored string
		as     func(*gguf.Tensor) gguf.Type
	)
	cmd := &cobra.Command{
		Use:   "merge-lora BASE ADAPTER[:SCALE]... -o OUT",
		Short: "Merge LoRA adapters into a model",
		Long: `Merge LoRA adapters into a model's weights, each with its scale (default 1). The
changed tensors become floats, F16 unless they are F32 or BF16 already, or the type
of --type; all others are unchanged. Memory use is small for any model, since the
file is written row by row. To make the result small, "quern quantize" with an
importance matrix loses less than --type.`,
		Example: `  quern merge-lora base.gguf adapter.gguf -o merged.gguf
  quern merge-lora base.gguf style.gguf:0.5 facts.gguf -o merged.gguf --type bf16`,
		Args: arguments(2, allArguments),
		PreRunE: func(*cobra.Command, []string) (err error) {
			if out == "" {
				return usagef("no file to write; give one with -o OUT")
			}
			as, err = mergedType(stored)
			return err
		},
		RunE: interruptible(func(cmd *cobra.Command, args []string) error {
			return mergeLora(cmd, &write, args, out, as)
		}),
	}
	fs := cmd.Flags()
	fs.StringVarP(&out, "output", "o", "", "`FILE` to write")
	fs.StringVar(&stored, "type", "", "`TYPE` of the changed tensors, such as f16, bf16, q8_0; same keeps the type of each (default: floats)")
	fs.BoolVar(&write.dryRun, "dry-run", false, "check the files and print what would be written, without writing")
	fs.BoolVar(&write.force, "force", false, "replace an existing file")
	return cmd
}

// mergeLora writes the model of args[0] with the adapters that the others name.
func mergeLora(cmd *cobra.Command, write *splitFlags, args []string, out string, as func(*gguf.Tensor) gguf.Type) error {
	base, err := openRows(args[0])
	if err != nil {
		return err
	}
	defer base.Close()
	if err := checkOutputs([]string{out}, base.Paths); err != nil {
		return err
	}
	var adapters []model.ScaledFile
	for _, arg := range args[1:] {
		path, scale, err := scaledPath(arg)
		if err != nil {
			return err
		}
		file, err := model.OpenFile(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := checkOutputs([]string{out}, file.Paths); err != nil {
			return err
		}
		adapters = append(adapters, model.ScaledFile{File: file, Scale: scale})
	}
	w, err := model.MergeAdapters(base, adapters, as)
	if err != nil {
		return err
	}
	size, err := w.Size()
	if err == nil {
		err = write.writeModel(cmd.Context(), out, size, base, w)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", visible(out), mem.FormatBytes(size))
	return err
}

// scaledPath returns the file and the scale of FILE or FILE:SCALE.
func scaledPath(arg string) (path string, scale float32, err error) {
	i := strings.LastIndexByte(arg, ':')
	if _, err := os.Stat(arg); err == nil || i < 0 {
		return arg, 1, nil
	}
	v, err := strconv.ParseFloat(arg[i+1:], 32)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return "", 0, usagef("%q: %q is no scale, want a number such as 0.5", arg, arg[i+1:])
	}
	return arg[:i], float32(v), nil
}
