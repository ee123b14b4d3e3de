package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
)

// A Model is a model of a server.
type Model struct {
	Path  string   // a file, a folder with a checkpoint, or the demo model
	Names []string // in the API; none: the file's
	// Aliases are those names that are shown to clients as aliases; nil: all but the first.
	Aliases []string
	Tags    []string // shown to clients
	// Persona is settings that the model came with, or those of the persona that it is served as; nil: none. One that is made
	// from a model of the same file shares that when it is loaded.
	Persona *persona.Persona
	Settings
}

// names returns the model's names in the API.
func (m *Model) names() []string {
	if len(m.Names) > 0 {
		return m.Names
	}
	return []string{strings.TrimSuffix(filepath.Base(m.Path), ".gguf")}
}

// A member is a model whose head was read, to be loaded.
type member struct {
	Model
	head     *launch.Head
	template *chat.Template
	warning  string // why that is not the model's own
}

// read reads the head of a model, and checks its settings against it.
func (f *Fleet) read(model Model) (m *member, err error) {
	m = &member{Model: model}
	m.Names = model.names()
	if m.head, err = f.c.Files.ReadHead(m.Path, f.opening(&m.Model)); err != nil {
		return nil, err
	}
	if m.Check != nil {
		err = m.Check(m.head.Tokenizer)
	}
	if err == nil {
		m.template, m.warning, err = m.head.Template(m.Template)
	}
	if err != nil {
		m.head.Close()
		return nil, err
	}
	return m, nil
}

// readModels reads the heads of the models of the start, before any is loaded.
func (f *Fleet) readModels(context.Context) error {
	f.onClose(func() {
		if !f.loading {
			for _, m := range f.start {
				m.head.Close()
			}
		}
	})
	for _, model := range f.c.Models {
		m, err := f.read(model)
		if err != nil {
			return err
		}
		f.start = append(f.start, m)
		if m.warning != "" && !m.head.Config.BothWays {
			f.log.Warn().Str("model", m.Names[0]).Msg(m.warning)
		}
	}
	return nil
}

// sources returns the models of the start as what the server loads, again if need be: the first time from the
// heads that were read.
func (f *Fleet) sources() []server.Source {
	var list []server.Source
	for _, m := range f.start {
		next := m
		src := f.source(m.Model, func() (*member, error) {
			if m := next; m != nil {
				next = nil // its file is the engine's from now on
				return m, nil
			}
			return f.read(m.Model)
		})
		src.Media = m.head.HasProjector()
		src.Starting, src.Info = true, ask.InfoOf(m.head.File, m.head.Config)
		need := src.Need
		src.Need = func(room uint64) (uint64, error) {
			if next != nil { // at the start, what does not fit is found beside the others
				return 0, nil
			}
			return need(room)
		}
		list = append(list, src)
	}
	return list
}

// source returns a model as what the server loads, from the head that read returns.
func (f *Fleet) source(model Model, read func() (*member, error)) server.Source {
	src := server.Source{Aliases: model.Aliases, Tags: model.Tags, Path: model.Path, Ctx: max(model.Launch.Ctx, 0)}
	src.Elsewhere = f.c.Files.Elsewhere(model.Path)
	src.Names, src.Persona = model.names(), f.persona(model.names()[0], model.Persona)
	for _, a := range model.Launch.Adapters {
		src.Adapters = append(src.Adapters, a.Name)
	}
	src.Need = func(room uint64) (uint64, error) {
		m, err := read()
		if err != nil {
			return 0, err
		}
		defer m.head.Close()
		return m.head.Need(f.device, room)
	}
	src.Load = func(ctx context.Context, progress func(float64)) (models.Instance[ask.Model], error) {
		m, err := read()
		if err != nil {
			return nil, err
		}
		i, err := f.instance(ctx, m, progress)
		if err != nil {
			return nil, err // not a non-nil Instance that holds nil
		}
		return i, nil
	}
	return src
}

// panicked logs a panic in what reads or runs a model.
func (f *Fleet) panicked(p *models.PanicError) {
	f.log.Error().Str("model", p.Name).Str("panic", fmt.Sprint(p.Value)).Bytes("stack", p.Stack).
		Msg("a model panicked; others go on")
}

// setAside reserves the needs of each of several models before the first is loaded: otherwise the keys and values
// of the first would take the memory of the others, and a model that does not fit beside them would be found late.
func (f *Fleet) setAside() ([]*mem.Reservation, error) {
	if len(f.start) < 2 {
		return nil, nil // a single model may use the whole budget
	}
	var aside []*mem.Reservation
	for _, m := range f.start {
		bytes, err := f.least(m)
		if err != nil {
			return nil, err
		}
		r, err := f.device.Budget().Reserve("weights, keys and values beside other models", bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		aside = append(aside, r)
	}
	return aside, nil
}

// least returns the memory that a model needs for full speed or, if that is too much and the settings permit it,
// the minimum to run.
func (f *Fleet) least(m *member) (uint64, error) {
	h := *m.head
	if h.Settings.Sequences = 1; h.Settings.Ctx == 0 {
		h.Settings.Ctx = min(h.Config.NCtx, launch.DefaultCtx)
	}
	return h.Need(f.device, f.device.Budget().Free())
}
