package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/fleet"
	"github.com/quern-llm/quern/go/hub"
)

// foreign has the file of presets of a repository on Hugging Face count as --models-preset, if -hf names one that has it in place of a
// model, and reports whether it does. The models of its sections are downloaded.
func (f *serveFlags) foreign(cmd *cobra.Command, name string) (bool, error) {
	if f.hub.repo == "" || f.hub.file != "" || len(f.models) > 0 || f.presets != "" {
		return false, nil
	}
	ref, err := hub.ParseRef(name)
	if err != nil {
		return false, usagef("%w", err)
	}
	h, err := f.hub.open(0)
	if err != nil {
		return false, err
	}
	kept := h.KeptPresets(ref)
	if _, _, err := h.Named(name); kept == "" && !errors.Is(err, hub.ErrNotFound) {
		return false, nil // a model that is here, or what is wrong with it
	}
	path, err := h.Presets(cmd.Context(), ref)
	if err != nil && kept != "" { // as models are, they are served where their server cannot be asked
		path, err = kept, nil
	}
	if path == "" || err != nil {
		return false, err
	}
	f.presets, f.presetsOf = path, ref.Shown()
	return true, f.pullPresets(cmd)
}

// pullPresets downloads the models that the sections of the file of presets name.
func (f *serveFlags) pullPresets(cmd *cobra.Command) error {
	common, sections, err := fleet.ReadPresets(f.presets)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range sections {
		s.Settings = slices.Concat(common, s.Settings)
		c, err := f.read(s, func(string) {})
		if err != nil {
			return usagef("%s, %w", f.presetsOf, err)
		}
		name, err := c.named()
		if err == nil && name != "" {
			_, err = f.hub.locate(cmd, name, true)
		}
		if err == nil {
			if name, err = c.draft.named(); err == nil && name != "" {
				_, err = f.hub.locateAlone(cmd, name, true)
			}
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: [%s]: %w", f.presetsOf, s.Line, s.Name, err)
		}
		names = append(names, s.Name)
	}
	notes(cmd.ErrOrStderr())(visible(f.presetsOf + " has presets of models: " + strings.Join(names, ", ")))
	return nil
}

// isLocal reports whether a flag names files, folders or addresses: presets of a server must not have this machine read them.
func isLocal(f *pflag.Flag) bool {
	placeholder, _ := pflag.UnquoteUsage(f)
	return slices.ContainsFunc([]string{"FILE", "FOLDER", "FNAME", "PATH", "URL"}, func(s string) bool { return strings.Contains(placeholder, s) })
}
