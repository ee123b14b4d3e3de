package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/server"
)

// A namedModel is a model's file and its name in the API; if name is empty, it is
// derived from the file.
type namedModel struct{ name, path string }

// clientNames are the model's names in the API. The demo has the one by which flags know it too.
func (m namedModel) clientNames() []string {
	switch {
	case m.name != "":
		return []string{m.name}
	case m.path == demo.Name:
		return []string{"quern-demo", demo.Name}
	}
	return []string{strings.TrimSuffix(filepath.Base(m.path), ".gguf")}
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
	return namedModel{name, path}, acceptModel(path)
}

// A modelsValue is the value of a repeatable flag for models.
type modelsValue struct {
	models *[]namedModel
	hub    *hubFlags
}

// locate replaces the names of models by the paths of their files.
func (v *modelsValue) locate(cmd *cobra.Command) error {
	other, err := v.hub.named()
	if err != nil {
		return err
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
		all[i] = namedModel{cmp.Or(all[i].name, at.name), at.path}
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

// A served is a model while it is being loaded and served.
type served struct {
	*serveFlags // its own
	path        string
	names       []string // names in the API
	tags        []string
	head        *launch.Head
	template    *chat.Template
	warning     string // why that is not the model's own
	defaults    server.Defaults

	open *launch.Model
	loop *engine.Loop
}

// A fleet is the models that are loaded at the start, the default first.
type fleet []*served

// readModels reads the heads of these models, before any is loaded.
func (f *serveFlags) readModels(logs zerolog.Logger) (all fleet, err error) {
	named := f.models
	if len(named) == 0 && f.modelsDir == "" && f.presets == "" && len(f.cached(logs)) == 0 {
		named = []namedModel{{path: demo.Name}}
		logs.Info().Msg(demoNote)
	}
	if len(named) == 0 && f.draft.model != "" {
		return nil, usagef("--model-draft drafts for the model of -m, and there is none; in a file of presets (--models-preset) each model may have a model-draft")
	}
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	for i, n := range named {
		names, tags := n.clientNames(), []string(nil)
		if i == 0 {
			tags = f.tags
			if len(f.names) > 0 {
				names = f.names
			}
		}
		s, err := f.read(names, n.path, i == 0)
		if err != nil {
			return all, err
		}
		s.tags = tags
		all = append(all, s)
		if s.warning != "" && !s.head.Config.BothWays {
			logs.Warn().Str("model", s.names[0]).Msg(s.warning)
		}
	}
	return all, nil
}

// read reads the head of a model, and what the flags say of it.
func (f *serveFlags) read(names []string, path string, adapted bool) (s *served, err error) {
	s = &served{serveFlags: f, names: names, path: path}
	settings, err := f.settings(adapted)
	if err != nil {
		return nil, err
	}
	if s.head, err = f.model.files.ReadHead(path, settings); err != nil {
		return nil, err
	}
	if err = s.settle(); err != nil {
		s.head.Close()
		return nil, err
	}
	return s, nil
}

// settings returns the flags as settings of a model. What flags say of one model only is of the first of those that they name.
func (f *serveFlags) settings(first bool) (launch.Settings, error) {
	s, err := f.model.settings()
	if err != nil {
		return s, err
	}
	s.Shared, s.Sequences, s.KVBytes, s.Draft = true, f.parallel, f.kvMemory, f.draft.settings()
	if first {
		s.Adapters, err = f.adapters.list()
	} else {
		s.Draft.Path = ""
	}
	return s, err
}

// settle checks the flags against the model's head.
func (s *served) settle() (err error) {
	if err := s.requests.checkTokens(s.head.Tokenizer); err != nil {
		return err
	}
	if s.defaults, err = s.requests.defaults(); err != nil {
		return err
	}
	if s.template, s.warning, err = s.head.Template(s.serveFlags.template.settings()); err != nil {
		return err
	}
	return nil
}

// close closes the files of models whose loading has not begun.
func (all fleet) close() {
	for _, s := range all {
		s.head.Close()
	}
}

// watchEvery is the time between two readings of the machine's limits.
const watchEvery = 2 * time.Second

// watch makes the device follow the machine's limits, which may change: a container may
// be resized.
func (f *serveFlags) watch(ctx context.Context, device *engine.Device, logs zerolog.Logger) {
	m, err := f.model.device().Machine()
	if err != nil {
		logs.Warn().Err(err).Msg("limits that change will not be followed")
		return
	}
	device.Watch(ctx, engine.WatchConfig{
		Machine: m, Memory: f.model.memory, Threads: f.model.threads == 0, Every: watchEvery,
		Log: func(line string) { logs.Warn().Msg(line) },
	})
}
