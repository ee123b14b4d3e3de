package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/internal/llamaflags"
)

// alias adds the spelling -short for the flag called name: -ctk for --cache-type-k.
func alias(fs *pflag.FlagSet, name, short string) { llamaflags.Alias(fs, name, "-"+short) }

// dashes normalizes --top_k to --top-k, as llama.cpp does.
func dashes(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// applyEnvironment sets each flag that the command line leaves out from QUERN_NAME, or
// from llama.cpp's variable for it. Empty counts as not set.
func applyEnvironment(fs *pflag.FlagSet) error {
	var failed error
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || failed != nil {
			return
		}
		variable := "QUERN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(variable)
		if value == "" {
			variable, value = llamaflags.Environment(f)
		}
		if value == "" {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			failed = usagef("environment variable %s: %w", variable, err)
		}
		if v, ok := f.Value.(interface{ From(variable string) }); ok {
			v.From(variable)
		}
	})
	return failed
}

// checkFlags applies the environment, and refuses llama.cpp's flags that are not
// supported.
func checkFlags(fs *pflag.FlagSet) error {
	if err := applyEnvironment(fs); err != nil {
		return err
	}
	if err := llamaflags.Refused(fs); err != nil {
		return usagef("%w", err)
	}
	return nil
}

const llamaHelp = `llama.cpp's other flags are accepted too: they work as in llama.cpp, or a message
says what applies instead. docs/migrating.md lists them all.`

// llamaFlags adds llama.cpp's flags to a command whose own flags are defined already.
func llamaFlags(fs *pflag.FlagSet, groups ...llamaflags.Group) {
	fs.Bool("version", false, "print the version")
	llamaflags.Define(fs, groups...)
}
