package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/persona"
)

// A namedModel is a model's file and its name in the API; empty: that of the file.
type namedModel struct {
	name, path string
	persona    *persona.Persona // see located
}

// parseModel parses FILE or NAME=FILE. An existing file takes precedence over a name.
func parseModel(s string) (namedModel, error) {
	name, path, named := strings.Cut(s, "=")
	if _, err := os.Stat(s); err == nil || !named || strings.ContainsRune(name, '/') {
		return namedModel{path: s}, acceptModel(s)
	}
	if name == "" {
		return namedModel{}, fmt.Errorf("%q begins with =, want FILE or NAME=FILE", s)
	}
	return namedModel{name: name, path: path}, acceptModel(path)
}

// A modelsValue is the value of a repeatable flag for models.
type modelsValue struct {
	models  *[]namedModel
	hub     *hubFlags
	instead func(cmd *cobra.Command, name string) (bool, error) // reports whether a name of llama.cpp's flags means something else; nil: none does
}

// locate replaces the names of models by the paths of their files.
func (v *modelsValue) locate(cmd *cobra.Command) error {
	other, err := v.hub.named()
	if err != nil {
		return err
	}
	if other != "" && v.instead != nil {
		if is, err := v.instead(cmd, other); is || err != nil {
			return err
		}
	}
	all := *v.models
	if other != "" {
		all = append(all, namedModel{path: other})
	}
	for i := range all {
		at, err := v.hub.locate(cmd, all[i].path, other != "" && i == len(all)-1)
		if err != nil {
			return err
		}
		all[i] = namedModel{cmp.Or(all[i].name, at.name), at.path, at.persona}
	}
	*v.models = all
	return nil
}

func (v *modelsValue) Set(s string) error {
	m, err := parseModel(s)
	if err == nil {
		*v.models = append(*v.models, m)
	}
	return err
}

func (v *modelsValue) Type() string { return "FILE" }

func (v *modelsValue) String() string {
	if v.models == nil {
		return ""
	}
	var all []string
	for _, m := range *v.models {
		all = append(all, m.path)
	}
	return strings.Join(all, ",")
}
