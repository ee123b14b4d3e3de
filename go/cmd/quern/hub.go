package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/persona"
)

// hubFlags are the flags about models that are downloaded.
type hubFlags struct {
	cache   string
	token   string
	offline bool
	yes     bool

	// llama.cpp's names of models.
	repo, file, url, docker string

	persona *persona.Persona // of the model of -m, once it is located; nil: none

	remote bool          // models that are not here are read from their servers, and not stored
	files  *launch.Files // that opens such models; nil: the command has none

	projectors *bool // whether models come with theirs; nil: they do

	// fits returns why a model whose heads are at path cannot be run; nil: any file will do.
	fits func(path string) error
}

// define adds the flags of commands that run models.
func (f *hubFlags) define(fs *pflag.FlagSet) { f.defineBeside(fs, fs) }

// defineBeside is define where those that are of one model alone have a set of their own.
func (f *hubFlags) defineBeside(fs, which *pflag.FlagSet) {
	f.defineCache(fs)
	fs.BoolVarP(&f.yes, "yes", "y", false, "download a model that is not here without asking")
	which.StringVar(&f.repo, "hf-repo", "", "`ORG/REPO[:QUANT]` on Hugging Face, downloaded if needed; as -m hf.co/ORG/REPO[:QUANT] --yes")
	which.StringVar(&f.file, "hf-file", "", "`FILE` of that repository")
	fs.StringVar(&f.url, "model-url", "", "`URL` of a GGUF file, downloaded if needed")
	fs.StringVar(&f.docker, "docker-repo", "", "`REPO[:TAG]` of a model on Docker Hub, downloaded if needed")
	which.Lookup("hf-file").Hidden, fs.Lookup("model-url").Hidden, fs.Lookup("docker-repo").Hidden = true, true, true
	alias(which, "hf-repo", "hf")
	alias(which, "hf-repo", "hfr")
	alias(which, "hf-file", "hff")
	alias(fs, "model-url", "mu")
	alias(fs, "docker-repo", "dr")
}

// defineCache adds the flags of all commands that know the cache.
func (f *hubFlags) defineCache(fs *pflag.FlagSet) {
	fs.StringVar(&f.cache, "model-cache", "", "`FOLDER` of downloaded models (default: quern in the user's cache folder)")
	fs.BoolVar(&f.offline, "offline", false, "download nothing")
	fs.StringVar(&f.token, "hf-token", "", "`TOKEN` for Hugging Face (default: HF_TOKEN, or the one stored by its own tools)")
	alias(fs, "hf-token", "hft")
	fs.Lookup("hf-token").Hidden = true
}

// defineRemote adds the flag of commands that run models without a file here, which files opens.
func (f *hubFlags) defineRemote(fs *pflag.FlagSet, files *launch.Files) {
	f.files = files
	fs.BoolVar(&f.remote, "remote", false, "read a model that is not here from its server into memory, without a copy on the disk; with --yes one is made where the server sends no parts of files")
}

// defineKept adds the flags of commands that are about the cache alone: --offline is accepted, without effect.
func (f *hubFlags) defineKept(fs *pflag.FlagSet) {
	f.defineCache(fs)
	fs.Lookup("offline").Hidden = true
}

// open returns the cache, and the servers that the environment names.
func (f *hubFlags) open(connections int) (*hub.Hub, error) {
	return hub.FromEnvironment(hub.Config{
		Dir: f.cache, Token: f.token, Offline: f.offline, Connections: connections, Agent: "quern/" + readBuild().Version,
	})
}

// named returns the name of the model that llama.cpp's flags give; empty if they give none.
func (f *hubFlags) named() (string, error) {
	given := 0
	for _, s := range []string{f.repo, f.url, f.docker} {
		if s != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return "", usagef("--hf-repo, --model-url and --docker-repo each name a model; give one")
	case f.file != "" && f.repo == "":
		return "", usagef("--hf-file %s: of which repository? name it with --hf-repo ORG/REPO", f.file)
	case f.file != "":
		repo, _, _ := strings.Cut(f.repo, ":")
		return "hf.co/" + repo + "/" + f.file, nil
	case f.repo != "":
		return onHuggingFace(f.repo), nil
	case f.docker != "" && strings.Contains(f.docker, "/"):
		return "oci://docker.io/" + f.docker, nil
	case f.docker != "":
		return "oci://docker.io/ai/" + f.docker, nil
	}
	return f.url, nil
}

// onHuggingFace returns the name of a repository there.
func onHuggingFace(repo string) string { return "hf.co/" + strings.TrimPrefix(repo, "hf.co/") }

// A located is a model that a name means.
type located struct {
	path    string
	name    string           // for clients; empty: the file's
	persona *persona.Persona // settings that it came with, or is served with; nil: none
}

// locate returns the file of the model called name: the demo's or a file's own, one of the cache, or one that is downloaded
// now. Where agreed is not set, that is asked for first.
func (f *hubFlags) locate(cmd *cobra.Command, name string, agreed bool) (located, error) {
	return f.locateWith(cmd, name, agreed, f.projectors == nil || *f.projectors, f.remote)
}

// locateAlone is locate for what has no projector of its own: it is not downloaded.
func (f *hubFlags) locateAlone(cmd *cobra.Command, name string, agreed bool) (located, error) {
	return f.locateWith(cmd, name, agreed, false, false)
}

// soleModel returns the model in a folder that has one GGUF model and no checkpoint, as those have that are downloaded or
// mounted for one model; otherwise name itself.
func soleModel(name string) string {
	if convert.Is(name) {
		return name
	}
	if all, err := gguf.ModelsIn(name); err == nil && len(all) == 1 {
		return all[0]
	}
	return name
}

func (f *hubFlags) locateWith(cmd *cobra.Command, name string, agreed, projector, remote bool) (located, error) {
	if _, err := os.Stat(name); err == nil || demo.Is(name) || name == "" {
		return located{path: soleModel(name)}, nil
	}
	ref, refErr := hub.ParseRef(name)
	if refErr != nil && !errors.Is(refErr, hub.ErrNoRef) {
		return located{}, usagef("%w", refErr)
	}
	h, err := f.open(0)
	if err != nil {
		if refErr != nil {
			return located{path: name}, nil // it can only be a file, and opening it says what is wrong
		}
		return located{}, err
	}
	p, m, err := h.Named(name)
	switch {
	case p != nil:
		if _, err := h.Persona(p.From); err == nil { // the cache makes none like this: its file was written by hand
			return located{}, fmt.Errorf("%s is made from %s, which is a persona itself; want a model", p.Name, p.From)
		}
		at, err := f.locateWith(cmd, p.From, agreed, projector, remote)
		if err != nil {
			return located{}, fmt.Errorf("%s is made from another model: %w", p.Name, err)
		}
		return located{at.path, p.Name, p}, nil
	case m != nil:
		noteSkipped(cmd, m)
		return located{h.Path(m), m.Short(), m.Persona}, nil
	case !errors.Is(err, hub.ErrNotFound):
		return located{}, err
	case refErr != nil && (filepath.Ext(name) == ".gguf" || strings.HasPrefix(name, ".") || filepath.IsAbs(name)):
		return located{path: name}, nil
	case refErr != nil:
		return located{}, notHere(name)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	plan, err := h.Resolve(ctx, ref)
	if err != nil {
		return located{}, err
	}
	if remote {
		note := notes(cmd.ErrOrStderr())
		at, err := f.elsewhere(ctx, h, plan, projector, note)
		if !errors.Is(err, hub.ErrWhole) || !f.yes {
			return at, err
		}
		note(visible(err.Error()))
	}
	if !projector {
		plan.DropProjector()
	}
	if !agreed && !f.yes {
		if err := ask(cmd, h, plan); err != nil {
			return located{}, err
		}
	}
	if m, err = pull(ctx, cmd, h, plan, hub.Options{Check: f.fits, Asked: name}); err != nil {
		return located{}, err
	}
	return located{h.Path(m), m.Short(), m.Persona}, nil
}

// elsewhere has a model read from its server when it is opened. Of projectors there is a copy here: they are small, and one
// that is wanted is named.
func (f *hubFlags) elsewhere(ctx context.Context, h *hub.Hub, plan *hub.Plan, projector bool, note func(string)) (located, error) {
	all := len(plan.Files)
	if plan.DropProjector(); projector && len(plan.Files) < all {
		note(visible(plan.Ref.Shown() + ": its projector is left out with --remote; --mmproj names one"))
	}
	files, err := h.Remotes(ctx, plan)
	if err != nil {
		return located{}, err
	}
	sources := make([]model.Source, len(files))
	for i, file := range files {
		sources[i] = file
	}
	if plan.Skipped != "" {
		note(visible(plan.Ref.Shown() + ": " + plan.Skipped))
	}
	name := plan.Ref.Key()
	f.files.Remote(name, sources)
	return located{name, plan.Ref.Short(), plan.Persona}, nil
}

// notHere is the error for the name of a model that is no file, not in the cache and without a server.
func notHere(name string) error {
	if guess := hub.Guess(name); guess != "" {
		return fmt.Errorf("%s is no file, and no model in the cache; \"quern pull %s\" downloads Ollama's; other %w", name, guess, hub.ErrNoRef)
	}
	return fmt.Errorf("%s is no file, and no model in the cache; %w", visible(name), hub.ErrNoRef)
}

// pull downloads a model and shows the progress.
func pull(ctx context.Context, cmd *cobra.Command, h *hub.Hub, plan *hub.Plan, o hub.Options) (*hub.Model, error) {
	bar := newPullBar(cmd.ErrOrStderr(), plan.Ref.Shown())
	o.Progress = bar.update
	m, err := h.Pull(ctx, plan, o)
	bar.done()
	if errors.Is(err, context.Canceled) && bar.kept > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "stopped; %s are kept, the same command goes on\n", mem.FormatBytes(uint64(bar.kept)))
	}
	if err == nil {
		noteSkipped(cmd, m)
	}
	return m, err
}

// noteSkipped says which settings of a model are left out.
func noteSkipped(cmd *cobra.Command, m *hub.Model) {
	if m.Skipped != "" {
		notes(cmd.ErrOrStderr())(visible(m.Name + ": " + m.Skipped))
	}
}

// ask asks whether a model is to be downloaded, where there is somebody who can answer.
func ask(cmd *cobra.Command, h *hub.Hub, plan *hub.Plan) error {
	size := "of a size that its server does not say"
	if n := plan.Bytes(); n > 0 {
		size = mem.FormatBytes(uint64(n))
	}
	in, out := cmd.InOrStdin(), cmd.ErrOrStderr()
	if !isTerminal(in) || !isTerminal(out) {
		return fmt.Errorf("%s is not in the cache (%s); download it with \"quern pull %s\", or give --yes", plan.Ref.Shown(), size, plan.Ref.Shown())
	}
	fmt.Fprintf(out, "%s is not here: download it, %s, to %s? [Y/n] ", visible(plan.Ref.Shown()), size, visible(h.Dir()))
	answer, err := readLine(in)
	if err != nil {
		return err
	}
	if s := strings.ToLower(strings.TrimSpace(answer)); s != "" && s != "y" && s != "yes" {
		return fmt.Errorf("%s was not downloaded", plan.Ref.Shown())
	}
	return nil
}

// readLine reads a line and nothing behind it, which is the program's own input.
func readLine(r io.Reader) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < 1024 {
		n, err := r.Read(b)
		if n == 1 && b[0] == '\n' || err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		line = append(line, b[:n]...)
	}
	return string(line), nil
}

// resolveModels has the models that a command line names located, before the command begins.
func resolveModels(cmd *cobra.Command) error {
	for _, name := range []string{"model", "model-draft", "mmproj"} {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			continue
		}
		if v, ok := f.Value.(interface{ locate(*cobra.Command) error }); ok {
			if err := v.locate(cmd); err != nil {
				return err
			}
		}
	}
	return nil
}

// fits returns why a model cannot be run with these flags, as far as its head says.
func (f *modelFlags) fits(path string) error {
	s, err := f.settings()
	if err != nil {
		return err
	}
	return f.files.Fits(path, s, f.device())
}
