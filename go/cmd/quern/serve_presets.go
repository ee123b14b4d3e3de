package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/fleet"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/llamaflags"
)

// presetOnly are the keys that are not flags.
var presetOnly = []string{"load-on-startup", "stop-timeout", "dedup-cache-models"}

// A configured is a section of a file of presets, read as flags.
type configured struct {
	serveFlags
	whole   *pflag.FlagSet // flags of the whole server, which have no effect here
	all     *pflag.FlagSet
	startup bool     // it is loaded at the start
	covers  bool     // downloaded models that it is of are not listed
	served  bool     // the file is a server's: it names nothing of this machine
	given   []string // what the section says, as flags
}

// configure reads the section of a model, under the flags of the command line: for the catalog of a fleet.
func (f *serveFlags) configure(s fleet.Section, warn func(string)) (fleet.Configured, error) {
	c, err := f.read(s, warn)
	if err != nil {
		return fleet.Configured{}, err
	}
	if c.draft.model, err = f.downloaded(c.draft.named()); err != nil {
		return fleet.Configured{}, err
	}
	if c.projector.path, err = f.downloaded(c.projector.named()); err != nil {
		return fleet.Configured{}, err
	}
	of := fleet.Configured{Given: c.given, Startup: c.startup}
	of.Settings, of.Broken = c.servedFlags.settings(true)
	of.Names, of.Tags = c.names, c.tags
	if of.Path, err = f.listed(c.named()); err != nil {
		err = fmt.Errorf("line %d: [%s]: %w", s.Line, s.Name, err)
	}
	if c.covers {
		of.Covers = []string{of.Path, c.draft.model}
	}
	return of, err
}

// read reads the settings of a section as flags. warn is told of settings that have no effect.
func (f *serveFlags) read(s fleet.Section, warn func(string)) (*configured, error) {
	set := func(name string) *pflag.FlagSet {
		fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
		fs.SetNormalizeFunc(dashes)
		fs.SetOutput(io.Discard)
		fs.Usage = func() {}
		return fs
	}
	c := &configured{whole: set("whole"), all: set("preset"), served: f.presetsOf != ""}
	which, each := set("which"), set("each")
	c.define(c.whole, which, each)
	c.all.AddFlagSet(c.whole)
	c.all.AddFlagSet(which)
	c.all.AddFlagSet(each)
	llamaFlags(c.all, serveGroups...)
	for _, one := range s.Settings {
		if err := c.apply(one, warn); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", one.Line, one.Key, err)
		}
	}
	if err := llamaflags.Refused(c.all); err != nil {
		return nil, err
	}
	if err := inherit(each, f.flags); err != nil {
		return nil, err
	}
	return c, c.check()
}

// inherit sets flags as they are in another set, if they were given there: the command line and the environment come
// before a file of presets.
func inherit(to, from *pflag.FlagSet) (err error) {
	to.VisitAll(func(f *pflag.Flag) {
		by := from.Lookup(f.Name)
		if err != nil || by == nil || !by.Changed {
			return
		}
		if list, ok := by.Value.(pflag.SliceValue); ok {
			err = f.Value.(pflag.SliceValue).Replace(list.GetSlice())
			f.Changed = true
			return
		}
		value := by.Value.String()
		if _, is := by.Value.(*switchValue); is && value == "" {
			value = "off"
		}
		err = to.Set(f.Name, value)
	})
	return err
}

// apply sets the flag that a setting names.
func (c *configured) apply(s fleet.Setting, warn func(string)) error {
	if key := strings.TrimLeft(strings.ReplaceAll(s.Key, "_", "-"), "-"); slices.Contains(presetOnly, key) {
		var on bool
		var err error
		switch key {
		case "load-on-startup":
			on, err = llamaflags.ParseSwitch(s.Value)
			c.startup = on
		case "dedup-cache-models":
			on, err = llamaflags.ParseSwitch(s.Value)
			c.covers = on
		}
		return err
	}
	f, off := llamaflags.Named(c.all, s.Key)
	if f == nil {
		return errors.New("no such flag; \"quern serve --help\" lists them")
	}
	if c.whole.Lookup(f.Name) != nil || f.Name == "version" {
		warn(fmt.Sprintf("line %d: %s is for the whole server, and left out", s.Line, s.Key))
		return nil
	}
	if c.served && isLocal(f) {
		return errors.New("presets of a server name no files, folders or addresses; of models they name hf-repo")
	}
	value := s.Value
	if off { // as no-mmap = true
		on, err := llamaflags.ParseSwitch(value)
		if err != nil {
			return err
		}
		value = map[bool]string{true: "off", false: "on"}[on]
	}
	if err := c.all.Set(f.Name, value); err != nil {
		return err
	}
	c.given = append(c.given, "--"+f.Name, value)
	return nil
}

// named returns the name of the model that a section is of: model = FILE or a downloaded one, or hf-repo; empty if it
// names none.
func (c *configured) named() (string, error) {
	name, err := c.hub.named()
	if n := len(c.models); err == nil && n > 0 {
		if name != "" {
			return "", errors.New("model and hf-repo both name a model; give one")
		}
		name = c.models[n-1].path
	}
	return name, err
}

// listed is downloaded, or the name of a model that is read from its server, with --remote: the file that is there when it is
// first listed.
func (f *serveFlags) listed(name string, err error) (string, error) {
	path, missing := f.downloaded(name, err)
	if err != nil || missing == nil || !f.hub.remote {
		return path, missing
	}
	if at, ok := f.resolved.Load(name); ok {
		return at.(string), nil
	}
	ref, err := hub.ParseRef(name)
	if err != nil {
		return "", err
	}
	h, err := f.hub.open(0)
	if err != nil {
		return "", err
	}
	plan, err := h.Resolve(context.Background(), ref)
	if err != nil {
		return "", err
	}
	at, err := f.hub.elsewhere(context.Background(), h, plan, false, func(string) {})
	if err != nil {
		return "", err
	}
	f.resolved.Store(name, at.path)
	return at.path, nil
}

// downloaded returns the path of a file, or of a model that was downloaded.
func (f *serveFlags) downloaded(name string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if _, err := hub.ParseRef(name); err != nil {
		return name, nil // a file
	}
	h, err := f.hub.open(0)
	if err != nil {
		return "", err
	}
	m, err := h.Find(name)
	if err != nil {
		return "", fmt.Errorf("%w; \"quern pull %s\" downloads it", err, name)
	}
	return h.Path(m), nil
}
