package fleet

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
)

// share takes models of the start that are personas of another one, of the same file, out of the models that are
// loaded: they share that one.
func (f *Fleet) share() {
	isPersona := func(m *Model) bool { return m.Persona != nil && m.Persona.From != "" }
	owner := map[string]int{} // of a file
	for i := range f.c.Models {
		m := &f.c.Models[i]
		if at, ok := owner[m.Path]; !ok || isPersona(&f.c.Models[at]) && !isPersona(m) {
			owner[m.Path] = i
		}
	}
	var loaded []Model
	for i, m := range f.c.Models {
		if owner[m.Path] == i || !isPersona(&m) {
			loaded = append(loaded, m)
			continue
		}
		as := *m.Persona
		as.Name, as.From = m.names()[0], m.Path
		f.shared = append(f.shared, &as)
	}
	f.c.Models = loaded
}

// persona returns settings as the API has them; nil where there are none.
func (f *Fleet) persona(name string, p *persona.Persona) *ask.Persona {
	if p.Empty() {
		return nil
	}
	return f.usable(name, p)
}

// usable returns a persona for the API. The log says which of its parameters no request could have, and are left out.
func (f *Fleet) usable(name string, p *persona.Persona) *ask.Persona {
	as, wrong := ask.UsablePersona(p)
	for _, err := range wrong {
		f.log.Warn().Str("model", name).Msg(usage.OneLine(fmt.Errorf("a setting is left out: %w", err)))
	}
	return as
}

// personas returns those of the start, and then those of the cache whose names are others.
func (f *Fleet) personas() []*persona.Persona {
	all := slices.Clone(f.shared)
	if f.c.Catalog.Hub == nil {
		return all
	}
	stored, err := f.c.Catalog.Hub.Personas()
	if err != nil {
		f.log.Warn().Msg(usage.OneLine(fmt.Errorf("personas that cannot be read are left out: %w", err)))
	}
	for _, p := range stored {
		if !slices.ContainsFunc(all, func(o *persona.Persona) bool { return o.Name == p.Name }) {
			all = append(all, p)
		}
	}
	return all
}

// bases returns the models of personas that are no downloads: the demo, and files. Those of the start are there
// already.
func bases(personas []*persona.Persona, start []*member) (all []pulled) {
	for _, p := range personas {
		path := p.From
		switch {
		case path != demo.Name && !filepath.IsAbs(path),
			slices.ContainsFunc(start, func(m *member) bool { return m.Path == path }),
			slices.ContainsFunc(all, func(o pulled) bool { return o.path == path }):
			continue
		}
		m := Model{Path: path}
		all = append(all, pulled{names: m.names(), path: path})
	}
	return all
}

// based returns personas with the models that they are made from, of the start or of the list. Those of no model are
// left out, which the log says.
func (f *Fleet) based(personas []*persona.Persona, list []*listed) (all []server.Persona) {
	taken := map[string]bool{}
	base := map[string]string{} // a model's own name, by its names and its file
	add := func(m *Model) {
		for _, name := range append([]string{m.Path}, m.names()...) {
			if base[name] == "" {
				base[name] = m.names()[0]
			}
		}
		for _, name := range m.names() {
			taken[name] = true
		}
	}
	for _, m := range f.start {
		add(&m.Model)
	}
	for _, m := range list {
		add(&m.Model)
	}
	for _, p := range personas {
		var err error
		switch {
		case taken[p.Name]:
			err = fmt.Errorf("a model has its name")
		case base[p.From] == "":
			err = fmt.Errorf("there is no %s, which it is made from", strings.ToValidUTF8(p.From, "?"))
		default:
			taken[p.Name] = true
			all = append(all, server.Persona{Persona: f.usable(p.Name, p), Base: base[p.From]})
		}
		if err != nil {
			f.log.Warn().Str("persona", p.Name).Msg(usage.OneLine(fmt.Errorf("it is left out: %w", err)))
		}
	}
	return all
}

// sameSettings reports whether two models came with the same settings.
func sameSettings(a, b *persona.Persona) bool {
	if a.Empty() || b.Empty() {
		return a.Empty() && b.Empty()
	}
	return a.Modelfile() == b.Modelfile()
}
