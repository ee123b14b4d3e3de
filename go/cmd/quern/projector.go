package main

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/launch"
)

// projectorFlags say which encoders of pictures and sounds go with a model.
type projectorFlags struct {
	path, url string
	auto      bool
}

func (f *projectorFlags) define(fs *pflag.FlagSet, hub *hubFlags) { f.defineBeside(fs, fs, hub) }

// defineBeside is define where those that name the projector of one model have a set of their own.
func (f *projectorFlags) defineBeside(fs, which *pflag.FlagSet, hub *hubFlags) {
	which.Var(&projectorValue{f, hub}, "mmproj", "GGUF `FILE` of the encoders of pictures and sounds of the first model, or the folder of its checkpoint (default: mmproj*.gguf beside the model)")
	which.StringVar(&f.url, "mmproj-url", "", "`URL` of that file, downloaded if needed")
	which.Lookup("mmproj-url").Hidden = true
	projectorsVar(fs, &f.auto, hub, "use and download the projector that comes with a model; --no-mmproj does without")
}

// projectorsVar defines the flag that says whether models come with their projectors.
func projectorsVar(fs *pflag.FlagSet, p *bool, hub *hubFlags, usage string) {
	switchVar(fs, p, "mmproj-auto", true, usage)
	llamaflags.Off(fs, "mmproj-auto", "--no-mmproj")
	hub.projectors = p
}

// named returns the name of the projector; empty if there is none.
func (f *projectorFlags) named() (string, error) {
	name := cmp.Or(f.path, f.url)
	switch {
	case f.url != "" && f.path != "":
		return "", usagef("--mmproj %s and --mmproj-url %s both name a projector; give one", f.path, f.url)
	case name != "" && !f.auto:
		return "", usagef("--mmproj %s and --no-mmproj: is there to be a projector? give one of them", name)
	}
	return name, nil
}

// apply adds the flags to the settings of a model.
func (f *projectorFlags) apply(s *launch.Settings) { s.Projector, s.NoProjector = f.path, !f.auto }

// A projectorValue is the name of a projector.
type projectorValue struct {
	f   *projectorFlags
	hub *hubFlags
}

func (v *projectorValue) Set(s string) error {
	v.f.path = s
	return acceptModel(s)
}

func (v *projectorValue) String() string {
	if v.f == nil {
		return ""
	}
	return v.f.path
}

func (v *projectorValue) Type() string { return "FILE" }

// locate replaces the name of the projector by the path of its file.
func (v *projectorValue) locate(cmd *cobra.Command) error {
	name, err := v.f.named()
	if err != nil {
		return err
	}
	at, err := v.hub.locateAlone(cmd, name, v.f.url != "")
	v.f.path = at.path
	return err
}
