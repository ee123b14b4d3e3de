package fleet

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
)

// A Catalog is models that are loaded when a request names them.
type Catalog struct {
	Dir     string // of models, as findModels finds them; empty: none
	Presets string // a file of sections with settings of models, see parsePresets; empty: none

	// Configure returns the settings of a model: those of a section, above what all models have. A section
	// without a name has the settings of all models alone. warn is told of settings without effect. It is nil where
	// there is no catalog.
	Configure func(s Section, warn func(string)) (Configured, error)

	Hub   *hub.Hub                // whose downloaded models are served; nil: none are
	Pulls bool                    // clients may download models, and remove them
	Fits  func(path string) error // says why a downloaded model cannot be run; nil: any can
}

// none reports whether there is no catalog.
func (c *Catalog) none() bool { return c.Dir == "" && c.Presets == "" && c.Hub == nil }

// Empty reports whether there are no models to be had, yet.
func (c *Catalog) Empty(log zerolog.Logger) bool {
	return c.Dir == "" && c.Presets == "" && len(c.downloaded(log)) == 0
}

// A Configured is a section of a file of presets, as settings.
type Configured struct {
	Model            // Path: where the section names one; Names: aliases
	Given   []string // what the section says, as flags
	Startup bool     // the model is loaded at the start
	Broken  error    // why it cannot be loaded with these settings; nil: it can
	Covers  []string // files that it has: downloaded models which are one of them are not shown, but may be asked
}

// A listed is a model of the catalog.
type listed struct {
	Configured
	modified time.Time
	size     int64
	covered  bool // see Configured.Covers
}

func newListed(c Configured, path string, own *persona.Persona, names ...string) *listed {
	m := &listed{Configured: c}
	m.Path, m.Persona = path, own
	for _, alias := range c.Names {
		names = append(names, strings.TrimSpace(alias))
	}
	m.Names = names
	if info, err := os.Stat(path); err == nil {
		m.modified, m.size = info.ModTime(), info.Size()
	}
	return m
}

// same reports whether a model is what it was when it was listed.
func (m *listed) same(o *listed) bool {
	return m.Path == o.Path && m.modified.Equal(o.modified) && m.size == o.size &&
		slices.Equal(m.Names, o.Names) && m.covered == o.covered && slices.Equal(m.Tags, o.Tags) && slices.Equal(m.Given, o.Given) &&
		sameSettings(m.Persona, o.Persona)
}

// list returns the models of the catalog, as they are now, beside personas, whose names none has, and models of the start.
func (c *Catalog) list(log zerolog.Logger, personas []*persona.Persona, start []*member) ([]*listed, error) {
	var all []*listed
	var common []Setting
	var presets []Section
	warn := func(line string) { log.Warn().Str("presets", c.Presets).Msg(line) }
	configure := func(s Section) (Configured, error) {
		s.Settings = slices.Concat(common, s.Settings)
		of, err := c.Configure(s, warn)
		if wrong := (usage.Error{}); err != nil && !errors.As(err, &wrong) {
			err = usage.Errorf("--models-preset %s, %w", c.Presets, err)
		}
		return of, err
	}
	// take takes the section of a model that has no file of its own in the presets.
	take := func(names ...string) Section {
		for _, name := range names {
			i := slices.IndexFunc(presets, func(s Section) bool { return s.Name == name && !s.has("model", "hf-repo") })
			if i >= 0 {
				own := presets[i]
				presets = slices.Delete(slices.Clone(presets), i, i+1)
				return own
			}
		}
		return Section{}
	}
	var err error
	if c.Presets != "" {
		if common, presets, err = ReadPresets(c.Presets); err != nil {
			return nil, err
		}
	}
	if c.Dir != "" {
		files, err := findModels(c.Dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			of, err := configure(take(file.name))
			if err != nil {
				return nil, err
			}
			all = append(all, newListed(of, file.path, nil, file.name))
		}
	}
	var downloaded []*listed
	for _, m := range append(c.downloaded(log), bases(personas, start)...) {
		of, err := configure(take(m.names...))
		if err != nil {
			return nil, err
		}
		downloaded = append(downloaded, newListed(of, m.path, m.persona, m.names...))
	}
	for _, s := range presets {
		of, err := configure(s)
		if err != nil {
			return nil, err
		}
		if of.Path == "" {
			return nil, usage.Errorf("--models-preset %s, line %d: [%s] has no model, and there is none of that name; "+
				"want model = FILE", c.Presets, s.Line, s.Name)
		}
		all = append(all, newListed(of, of.Path, nil, s.Name))
		for _, m := range downloaded {
			m.covered = m.covered || slices.Contains(of.Covers, m.Path)
		}
	}
	return append(all, distinct(downloaded, all, personas)...), nil
}

// distinct leaves out names that another model has, the first of which keeps it, or a persona, and models that are left
// without any.
func distinct(models, before []*listed, personas []*persona.Persona) []*listed {
	taken := map[string]bool{}
	for _, p := range personas {
		taken[p.Name] = true
	}
	for _, m := range before {
		for _, name := range m.Names {
			taken[name] = true
		}
	}
	var all []*listed
	for _, m := range models {
		m.Names = slices.DeleteFunc(m.Names, func(name string) bool { return taken[name] })
		for _, name := range m.Names {
			taken[name] = true
		}
		if len(m.Names) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// A lister keeps a server's list of models as the catalog says.
type lister struct {
	fleet *Fleet
	mu    sync.Mutex
	all   map[string]*listed // by their own names
}

// scan brings the list up to date, and returns the models that are to be loaded at the start.
func (l *lister) scan() (startup []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	personas := l.fleet.personas()
	list, err := l.fleet.c.Catalog.list(l.fleet.log, personas, l.fleet.start)
	if err != nil {
		return nil, err
	}
	now := map[string]*listed{}
	for _, m := range list {
		name := m.Names[0]
		if now[name] != nil {
			return nil, usage.Errorf("two models are called %q: %s and %s; rename one", name, now[name].Path, m.Path)
		}
		now[name] = m
	}
	for name, was := range l.all {
		if m := now[name]; m == nil || !m.same(was) {
			l.fleet.api.Remove(name)
			delete(l.all, name)
		}
	}
	for _, m := range list {
		name := m.Names[0]
		if l.all[name] != nil {
			continue
		}
		if err := l.fleet.api.Add(l.fleet.listedSource(m)); err != nil {
			return nil, usage.Errorf("%s: %w", m.Path, err)
		}
		if l.all[name] = m; m.Startup {
			startup = append(startup, name)
		}
	}
	l.fleet.api.SetPersonas(l.fleet.based(personas, list))
	return startup, nil
}

// listedSource returns a model of the catalog as what the server loads. What is known of it is read from its file
// now; a model that cannot be read is listed with the reason.
func (f *Fleet) listedSource(m *listed) server.Source {
	src := f.source(m.Model, func() (*member, error) {
		if m.Broken != nil {
			return nil, m.Broken
		}
		return f.read(m.Model)
	})
	src.Settings, src.Modified, src.Covered = m.Given, m.modified, m.covered
	src.Broken = m.Broken
	if src.Broken == nil {
		src.Broken = models.Guard(m.Names[0], f.panicked, func() error {
			h, err := f.c.Files.Survey(m.Path, f.opening(&m.Model))
			if err != nil {
				return err
			}
			defer h.Close()
			src.Info = ask.InfoOf(h.File, h.Config)
			return nil
		})
	}
	if src.Broken != nil {
		f.log.Warn().Str("model", m.Names[0]).Msg(usage.OneLine(fmt.Errorf("it cannot be loaded: %w", src.Broken)))
	}
	return src
}
