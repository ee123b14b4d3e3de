package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
)

// A found is a model in a folder.
type found struct{ name, path string }

// firstShard is how the names of first shards end.
const firstShard = "-00001-of-"

// findModels returns the models in a folder: its GGUF files, and folders with one, or with the shards of one. Projectors
// (mmproj) are none.
func findModels(dir string) ([]found, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, usagef("--models-dir: %w", err)
	}
	var all []found
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // follows links
		switch {
		case err != nil || strings.HasPrefix(e.Name(), "."):
			continue
		case info.IsDir():
			if file := modelIn(path); file != "" {
				all = append(all, found{e.Name(), file})
			}
		case isModel(e.Name()):
			all = append(all, found{strings.TrimSuffix(e.Name(), ".gguf"), path})
		}
	}
	return all, nil
}

func isModel(file string) bool {
	return strings.HasSuffix(file, ".gguf") && !strings.HasPrefix(file, "mmproj") && !strings.HasPrefix(file, ".")
}

// modelIn returns the model's file in a folder of its own, the first where there are several; empty if there is none.
func modelIn(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	file := ""
	for _, e := range entries {
		switch {
		case !isModel(e.Name()):
		case strings.Contains(e.Name(), firstShard):
			return filepath.Join(dir, e.Name())
		case file == "":
			file = filepath.Join(dir, e.Name())
		}
	}
	return file
}

// A listed is a model that may be loaded when a request names it.
type listed struct {
	names    []string
	tags     []string
	path     string
	flags    *configured
	modified time.Time
	size     int64
}

// same reports whether a model is what it was when it was listed.
func (m *listed) same(o *listed) bool {
	return m.path == o.path && m.modified.Equal(o.modified) && m.size == o.size &&
		reflect.DeepEqual(m.names, o.names) && reflect.DeepEqual(m.tags, o.tags) && reflect.DeepEqual(m.flags.given, o.flags.given)
}

// catalog returns the models of --models-dir and --models-preset.
func (f *serveFlags) catalog(logs zerolog.Logger) ([]*listed, error) {
	var all []*listed
	var common []setting
	var presets []preset
	warn := func(line string) { logs.Warn().Str("presets", f.presets).Msg(line) }
	configure := func(settings ...setting) (*configured, error) {
		c, err := f.configure(warn, slices.Concat(common, settings)...)
		if err == nil {
			c.draft.model, err = f.presetDraft(c)
		}
		if wrong := (usage.Error{}); err != nil && !errors.As(err, &wrong) {
			err = usagef("--models-preset %s, %w", f.presets, err)
		}
		return c, err
	}
	// take takes the settings of a model that has no file of its own in the presets.
	take := func(name string) []setting {
		i := slices.IndexFunc(presets, func(p preset) bool { return p.name == name && !p.has("model", "hf-repo") })
		if i < 0 {
			return nil
		}
		own := presets[i].settings
		presets = slices.Delete(slices.Clone(presets), i, i+1)
		return own
	}
	var err error
	if f.presets != "" {
		if common, presets, err = readPresets(f.presets); err != nil {
			return nil, err
		}
	}
	if f.modelsDir != "" {
		files, err := findModels(f.modelsDir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			c, err := configure(take(file.name)...)
			if err != nil {
				return nil, err
			}
			all = append(all, newListed(file.name, file.path, c))
		}
	}
	pulled := f.cached(logs)
	var cached []*listed
	for _, m := range pulled {
		var own []setting
		for _, name := range m.names {
			if own = take(name); own != nil {
				break
			}
		}
		c, err := configure(own...)
		if err != nil {
			return nil, err
		}
		cached = append(cached, newListed(m.names[0], m.path, c, m.names[1:]...))
	}
	for _, p := range presets {
		c, err := configure(p.settings...)
		if err != nil {
			return nil, err
		}
		path, err := f.presetModel(c)
		if err != nil {
			return nil, usagef("--models-preset %s, line %d: [%s]: %w", f.presets, p.line, p.name, err)
		}
		if path == "" {
			return nil, usagef("--models-preset %s, line %d: [%s] has no model, and there is none of that name; want model = FILE", f.presets, p.line, p.name)
		}
		all = append(all, newListed(p.name, path, c))
	}
	return append(all, distinct(cached, all)...), nil
}

// has reports whether a preset has a key.
func (p *preset) has(keys ...string) bool {
	return slices.ContainsFunc(p.settings, func(s setting) bool { return slices.Contains(keys, strings.TrimLeft(s.key, "-")) })
}

func newListed(name, path string, c *configured, others ...string) *listed {
	m := &listed{names: append([]string{name}, others...), tags: c.tags, path: path, flags: c}
	for _, alias := range c.names {
		m.names = append(m.names, strings.TrimSpace(alias))
	}
	if info, err := os.Stat(path); err == nil {
		m.modified, m.size = info.ModTime(), info.Size()
	}
	return m
}

// A lister keeps a server's list of models as the folder and the file say.
type lister struct {
	*loader
	api *server.Server
	mu  sync.Mutex
	all map[string]*listed // by their own names
}

// scan brings the list up to date, and returns the models that are to be loaded at the start.
func (l *lister) scan() (startup []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, err := l.catalog(l.logs)
	if err != nil {
		return nil, err
	}
	now := map[string]*listed{}
	for _, m := range list {
		if now[m.names[0]] != nil {
			return nil, usagef("two models are called %q: %s and %s; rename one", m.names[0], now[m.names[0]].path, m.path)
		}
		now[m.names[0]] = m
	}
	for name, was := range l.all {
		if m := now[name]; m == nil || !m.same(was) {
			l.api.Remove(name)
			delete(l.all, name)
		}
	}
	for _, m := range list {
		if l.all[m.names[0]] != nil {
			continue
		}
		if err := l.api.Add(l.source(m)); err != nil {
			return nil, usagef("%s: %w", m.path, err)
		}
		if l.all[m.names[0]] = m; m.flags.startup {
			startup = append(startup, m.names[0])
		}
	}
	return startup, nil
}

// source returns a listed model as what the server loads. What is known of it is read from its file now; a file that cannot
// be read is listed with the reason.
func (l *lister) source(m *listed) server.Source {
	src := server.Source{Tags: m.tags, Path: m.path, Settings: m.flags.given, Modified: m.modified, Ctx: max(m.flags.model.ctx, 0)}
	src.Names = m.names
	src.Need = func(room uint64) (uint64, error) {
		s, err := m.flags.read(m.names, m.path, true)
		if err != nil {
			return 0, err
		}
		defer s.head.Close()
		return s.head.Need(l.device, room)
	}
	src.Load = l.loads(func() (*served, error) {
		s, err := m.flags.read(m.names, m.path, true)
		if err == nil {
			s.tags = m.tags
		}
		return s, err
	})
	src.Broken = models.Guard(m.names[0], l.panicked, func() error {
		settings, err := m.flags.settings(true)
		if err != nil {
			return err
		}
		h, err := l.model.files.Survey(m.path, settings)
		if err != nil {
			return err
		}
		defer h.Close()
		src.Info = infoOf(h)
		return nil
	})
	if src.Broken != nil {
		l.logs.Warn().Str("model", m.names[0]).Msg(usage.OneLine(fmt.Errorf("it cannot be loaded: %w", src.Broken)))
	}
	return src
}
