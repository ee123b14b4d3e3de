package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/mem"
)

// pullFlags are the flags of "quern pull".
type pullFlags struct {
	hub         hubFlags
	model       modelFlags // what it has to fit
	connections int
	force       bool
	projectors  bool
}

func newPullCommand() *cobra.Command {
	var f pullFlags
	cmd := &cobra.Command{
		Use:   "pull NAME...",
		Short: "Download models",
		Long: `Download models into the cache. All commands accept the same names:

  hf.co/ORG/REPO[:QUANT]      from Hugging Face; the default is Q4_K_M or the next in size
  hf.co/ORG/REPO/FILE.gguf    one file, with the other shards if it is one
  ollama.com/NAME[:TAG]       from Ollama's registry
  oci://HOST/REPO[:TAG]       from another registry, with the credentials of docker login
  https://HOST/FILE.gguf      a file; #sha256=SUM at the end verifies its hash

The header of a model is read first. The rest is not downloaded if this machine
cannot run the model: unknown architecture, too little memory or disk space. --force
skips this check. An interrupted pull resumes where it stopped. Files get their
names after their SHA-256 was verified.

A projector of the repository (mmproj*.gguf), which encodes pictures and sounds for
the model, comes along: Q8_0, else F16, BF16 or F32. --no-mmproj leaves it out.

HF_TOKEN is the token for Hugging Face, HF_ENDPOINT the URL of a mirror. Proxies are
set by HTTPS_PROXY, HTTP_PROXY and NO_PROXY.`,
		Example: `  quern pull hf.co/ggml-org/gemma-3-1b-it-GGUF
  quern pull hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q6_K
  quern pull ollama.com/qwen3:0.6b
  quern run -m hf.co/ggml-org/gemma-3-1b-it-GGUF "Name three rivers."`,
		Args: arguments(1, allArguments),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := f.run(cmd, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	f.hub.defineCache(fs)
	intVar(fs, &f.connections, "connections", "", 4, 1, 64, "concurrent connections")
	projectorsVar(fs, &f.projectors, &f.hub, "download the projector that comes with a model; --no-mmproj leaves it out")
	fs.BoolVar(&f.force, "force", false, "download even if this machine cannot run it")
	f.model.defineMemory(pflag.NewFlagSet("defaults", pflag.ContinueOnError)) // as "quern run" has them
	f.model.defineContext(fs, -1, 0, "tokens of context that it has to fit with; 0 is the model's own (default: the model's, at most 4096)")
	bytesVar(fs, &f.model.memory, "memory", "memory limit, such as 4G (default: see \"quern doctor\")")
	return cmd
}

func (f *pullFlags) run(cmd *cobra.Command, name string) error {
	ref, err := hub.ParseRef(name)
	if guess := hub.Guess(name); errors.Is(err, hub.ErrNoRef) && guess != "" {
		return usagef("%s: on which server? Ollama's is \"quern pull %s\"; other %w", name, guess, hub.ErrNoRef)
	}
	if err != nil {
		return usagef("%w", err)
	}
	h, err := f.hub.open(f.connections)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	plan, err := h.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	if !f.projectors {
		plan.DropProjector()
	}
	o := hub.Options{Asked: name}
	if !f.force {
		o.Check = func(path string) error {
			err := f.model.fits(path)
			if err != nil {
				err = fmt.Errorf("%w; it was not downloaded, --force does so", err)
			}
			return err
		}
	}
	m, err := pull(ctx, cmd, h, plan, o)
	if err != nil {
		return err
	}
	if isTerminal(cmd.ErrOrStderr()) {
		defer fmt.Fprintf(cmd.ErrOrStderr(), "quern chat %s\n", visible(m.Short()))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", visible(m.Name), mem.FormatBytes(uint64(m.Bytes())))
	return err
}

func newRmCommand() *cobra.Command {
	var f hubFlags
	var partial bool
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove downloaded models",
		Long: `Remove models from the cache, by the names in "quern list", with the files that no
other model uses. With --partial, remove the partial files of interrupted pulls.`,
		Example: `  quern rm hf.co/ggml-org/gemma-3-1b-it-GGUF:Q4_K_M
  quern rm --partial`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !partial {
				return errors.New("no model to remove; give its name, as \"quern list\" shows it")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := f.open(0)
			if err != nil {
				return err
			}
			for _, name := range args {
				m, freed, err := h.Remove(cmd.Context(), name)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: removed, %s freed\n", visible(m.Name), mem.FormatBytes(uint64(freed))); err != nil {
					return err
				}
			}
			if !partial {
				return nil
			}
			freed, err := h.Clean()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "unfinished downloads: %s freed\n", mem.FormatBytes(uint64(freed)))
			return err
		},
	}
	f.defineKept(cmd.Flags())
	cmd.Flags().BoolVar(&partial, "partial", false, "remove partial downloads that no pull is using")
	return cmd
}

func newCpCommand() *cobra.Command {
	var f hubFlags
	cmd := &cobra.Command{
		Use:   "cp FROM TO",
		Short: "Add an alias for a downloaded model",
		Long: `Add an alias for a downloaded model, such as a short name, which all commands accept.
It takes no space. An existing alias of that name is replaced.`,
		Example: `  quern cp hf.co/ggml-org/gemma-3-1b-it-GGUF gemma
  quern run -m gemma "Name three rivers."`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := f.open(0)
			if err != nil {
				return err
			}
			return h.Copy(cmd.Context(), args[0], args[1])
		},
	}
	f.defineKept(cmd.Flags())
	return cmd
}
