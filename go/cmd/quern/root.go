package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/internal/llamaflags"
)

// newRootCommand returns the root command with all subcommands.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "quern",
		Short: "Run GGUF language models on ordinary CPUs",
		Long: `Quern runs GGUF language models on ordinary CPUs.

Flags have llama.cpp's names where llama.cpp has the flag. Each can be set by an
environment variable: --ctx-size by QUERN_CTX_SIZE. QUERN_ISA=avx2 restricts the
instruction sets in use; "quern doctor" lists those of this machine.`,
		Example: `  quern run "Once upon a time"
  quern run -m model.gguf -p "Once upon a time"
  quern chat -m hf.co/ggml-org/gemma-3-1b-it-GGUF
  quern inspect model.gguf
  quern doctor`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2, // maximum edit distance
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		// cobra runs only the innermost PersistentPreRunE, and subcommands have none.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if v := cmd.Flags().Lookup("version"); v != nil && v.Changed {
				fmt.Fprintf(cmd.OutOrStdout(), "quern %s\n", readBuild().Version)
				return errDone
			}
			if _, err := chooseKernels(); err != nil {
				return err
			}
			if err := checkFlags(cmd.Flags()); err != nil {
				return err
			}
			return resolveModels(cmd)
		},
	}
	// Not cobra's: its templates would have the linker keep every method of every type, since
	// a template may call any by its name. That is a fifth of the program (see scripts/go.sh).
	root.Flags().Bool("version", false, "print the version")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) {
			if near := llamaflags.Near(cmd.Flags(), unknown.GetSpecifiedName()); near != "" {
				return usagef("%w, did you mean %s? see %q", err, near, helpFor(cmd))
			}
		}
		return usagef("%w; see %q", err, helpFor(cmd))
	})
	root.SetUsageFunc(printUsage)
	add(root,
		group{"Use a model", []*cobra.Command{newRunCommand(), newChatCommand(), newServeCommand(), newEmbedCommand(), newRerankCommand(), newClassifyCommand(), newTranscribeCommand(), newTokenizeCommand()}},
		group{"Models on this machine", []*cobra.Command{newPullCommand(), newListCommand(), newShowCommand(), newCreateCommand(), newCpCommand(), newRmCommand(), newInspectCommand(), newExportDemoCommand()}},
		group{"Model files", []*cobra.Command{
			newConvertCommand(), namesModels(newQuantizeCommand(), 1), newImatrixCommand(), namesModels(newPackCommand(), 1),
			namesModels(newSplitCommand(), 1), namesModels(newJoinCommand(), 1), namesModels(newMergeLoraCommand(), allArguments)}},
		group{"Train a model", []*cobra.Command{newFinetuneCommand(), newTrainCommand()}},
		group{"How fast and how good", []*cobra.Command{newBenchCommand(), newPerplexityCommand(), newCompareCommand()}},
		group{"A running server", []*cobra.Command{newPsCommand(), newHealthCommand(), newServiceCommand(), newRankCommand()}},
		group{aboutItself, []*cobra.Command{newDoctorCommand(), newVerifyCommand(), newVersionCommand()}},
	)
	cobra.EnableCommandSorting = false // what is used most comes first
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("completion")
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.GroupID = aboutItself
		}
		finish(cmd)
	}
	return root
}

// finish sets what all commands have in common.
func finish(cmd *cobra.Command) {
	cmd.Long = wrapped(cmd.Long)
	cmd.Flags().SortFlags = false
	cmd.Flags().SetNormalizeFunc(dashes)
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return usagef("%w; see %q", err, helpFor(cmd))
			}
			return nil
		}
	}
	complete(cmd)
	for _, sub := range cmd.Commands() {
		finish(sub)
	}
}

// flagsAlone is the Args of commands that take no others.
func flagsAlone(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	advice := "leave it out"
	if cmd.Flags().Lookup("model") != nil {
		advice = "a model is given with -m"
	}
	return fmt.Errorf("%.80q: %s takes flags alone; %s", args[0], cmd.CommandPath(), advice)
}

// arguments is the Args of commands that take from least to most others, which their Use names.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if least <= len(args) && len(args) <= most {
			return nil
		}
		_, want, _ := strings.Cut(cmd.Use, " ")
		got := "nothing"
		if len(args) > 0 {
			got = fmt.Sprintf("%.80q", args[:min(len(args), 8)])
		}
		return fmt.Errorf("%s wants %s, got %s", cmd.Name(), want, got)
	}
}

// helpFor returns the command line that prints the help of cmd.
func helpFor(cmd *cobra.Command) string {
	return "quern help" + strings.TrimPrefix(cmd.CommandPath(), "quern")
}

// prepare rewrites args for cobra, and reports an unknown command before its flags are
// reported as unknown.
func prepare(root *cobra.Command, args []string) ([]string, error) {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args, nil // a shell requests completions
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return nil, usagef("%w", err)
	}
	if name := firstName(rest); cmd.HasSubCommands() && name != "" {
		return nil, unknownCommand(cmd, name)
	}
	if name := firstName(rest); cmd.Name() == "help" && name != "" {
		// cobra would print a message and exit with 0.
		if topic, _, err := root.Find(rest); err != nil || topic == root {
			return nil, unknownCommand(root, name)
		}
	}
	if args, err = llamaflags.Rewrite(cmd.Flags(), args); err != nil {
		return nil, usagef("%w; see %q", err, helpFor(cmd))
	}
	return args, nil
}

// firstName returns the first of args if it is not a flag.
func firstName(args []string) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	return args[0]
}

// elsewhere are commands of other programs, and what does the same here.
var elsewhere = map[string]string{
	"push": "Quern uploads nothing",
	"stop": "a server unloads a model on POST /models/unload, or with \"keep_alive\": 0",
}

// unknownCommand returns an error for a command that parent does not have.
func unknownCommand(parent *cobra.Command, name string) error {
	if advice := elsewhere[name]; advice != "" && !parent.HasParent() {
		return usagef("there is no command %q: %s", name, advice)
	}
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		return usagef("unknown command %q, did you mean %s?", name, strings.Join(near, " or "))
	}
	var names []string
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() {
			names = append(names, cmd.Name())
		}
	}
	return usagef("unknown command %q, want one of %s", name, strings.Join(names, " "))
}
