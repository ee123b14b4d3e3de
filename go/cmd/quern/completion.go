package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// complete tells shells what may follow in a command line: the values of flags that have few, and the models that are here.
// Where it has nothing to say shells offer files.
func complete(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(interface{ Choices() []string }); ok {
			must(cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.Choices(), cobra.ShellCompDirectiveNoFileComp)))
		}
	})
	if fs.Lookup("model-cache") == nil {
		return
	}
	if fs.Lookup("model") != nil {
		must(cmd.RegisterFlagCompletionFunc("model", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return modelsHere(cmd, typed)
		}))
	}
	many := strings.Contains(cmd.Use, "...")
	if first, _, _ := strings.Cut(strings.TrimPrefix(cmd.Use, cmd.Name()+" "), " "); slices.Contains([]string{"NAME", "NAME...", "FROM", "IN", "[MODEL]", "FILE", "BASE"}, first) {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && !many {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return modelsHere(cmd, typed)
		}
	}
}

// must is for errors of this program's own text.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// modelsHere returns the names of downloaded models that begin with what was typed.
func modelsHere(cmd *cobra.Command, typed string) (names []string, _ cobra.ShellCompDirective) {
	if applyEnvironment(cmd.Flags()) != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	f := hubFlags{cache: cmd.Flags().Lookup("model-cache").Value.String(), offline: true}
	h, err := f.open(0)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	all, _ := h.List() // those that can be read
	personas, _ := h.Personas()
	for _, p := range personas {
		if strings.HasPrefix(p.Name, typed) {
			names = append(names, p.Name)
		}
	}
	for _, m := range all {
		for _, name := range []string{m.Short(), m.Name} {
			if strings.HasPrefix(name, typed) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
