package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/hub"
)

// allArguments is the count of a command whose arguments are all models.
const allArguments = math.MaxInt

// namesModels lets the first arguments of a command be names of models as -m has them: of the cache, or to be downloaded. All but
// the first may have the scale of an adapter behind them. The command itself is given files; its PreRunE tests the arguments
// before anything is downloaded.
func namesModels(cmd *cobra.Command, count int) *cobra.Command {
	var flags hubFlags
	fs := cmd.Flags()
	flags.defineCache(fs)
	fs.BoolVarP(&flags.yes, "yes", "y", false, "download a model that is not here without asking")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Without OUT it would be written beside a file of the cache.
		beside := cmd.Name() == "quantize" && (len(args) < 2 || isKind(args[1]) || args[1] == autoKind)
		noOut := usagef("%s is in the cache, where nothing is written beside it; name the file to write: quern quantize %s OUT ...", args[0], args[0])
		if beside && onServer(args[0]) {
			return noOut
		}
		names, scales := slices.Clone(args), make([]string, len(args))
		for i := 1; i < min(count, len(args)); i++ {
			if flags.has(args[i]) {
				continue
			}
			var err error
			if names[i], scales[i], err = withoutScale(args[i]); err != nil {
				return err
			}
		}
		for i := range min(count, len(args)) {
			at, err := flags.locate(cmd, names[i], false)
			if err != nil {
				return err
			}
			names[i] = at.path + scales[i]
		}
		if beside && names[0] != args[0] {
			return noOut
		}
		return run(cmd, names)
	}
	return cmd
}

// onServer reports whether a name is that of a model on a server, and no file's.
func onServer(name string) bool {
	if _, err := os.Stat(name); err == nil {
		return false
	}
	_, err := hub.ParseRef(name)
	return err == nil
}

// takeModel makes the first argument of a command the model, as -m does, where no flag names one and it can be nothing else: a
// folder with a checkpoint, a GGUF file, a model on a server or one in the cache. It returns the other arguments.
func (f *hubFlags) takeModel(cmd *cobra.Command, args []string) ([]string, error) {
	other, err := f.named()
	if err != nil || other != "" || len(args) == 0 || cmd.Flags().Changed("model") || !f.isModel(args[0]) {
		return args, nil // what is wrong with flags is said later
	}
	return args[1:], cmd.Flags().Set("model", args[0])
}

// isModel reports whether a word of a command line, which may be a text as well, names a model.
func (f *hubFlags) isModel(name string) bool {
	if name == "" {
		return false
	}
	isFile := filepath.Ext(name) == ".gguf" // where there is none, opening it says so
	if _, err := os.Stat(name); err == nil {
		_, err := os.Stat(filepath.Join(name, "config.json"))
		return isFile || err == nil
	}
	return !strings.ContainsAny(name, " \t\n") && (isFile || onServer(name) || f.has(name))
}

// has reports whether the cache has a model of a name.
func (f *hubFlags) has(name string) bool {
	h, err := f.open(0)
	if err != nil {
		return false
	}
	_, _, err = h.Named(name)
	return err == nil
}

// withoutScale cuts the scale of an adapter off its name: a number behind the last colon, where that is no file's name. In
// registries a number may be a tag: there a tag or a digest stands before the scale.
func withoutScale(arg string) (name, scale string, err error) {
	i := strings.LastIndexByte(arg, ':')
	if _, err := os.Stat(arg); err == nil || i < 0 {
		return arg, "", nil
	}
	v, err := strconv.ParseFloat(arg[i+1:], 32)
	if err != nil {
		return arg, "", nil
	}
	ref, err := hub.ParseRef(arg[:i])
	if err == nil && (ref.Kind == hub.Ollama || ref.Kind == hub.OCI) && !strings.ContainsAny(arg[strings.LastIndexByte(arg[:i], '/')+1:i], ":@") {
		return arg, "", nil
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "", "", usagef("%q: %q is no scale, want a number such as 0.5", arg, arg[i+1:])
	}
	return arg[:i], arg[i:], nil
}
