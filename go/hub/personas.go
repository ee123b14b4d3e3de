package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/persona"
)

// Personas are files of their own in the cache, personas/NAME.json: they have no weights. The names are those that
// copies may have, and no model has one of them.

func (h *Hub) personas() string { return filepath.Join(h.c.Dir, "personas") }

func (h *Hub) personaPath(name string) string { return filepath.Join(h.personas(), fileName(name)) }

// readPersona reads the file of a persona.
func readPersona(path string) (*persona.Persona, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, persona.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	p, err := persona.Parse(b)
	if err == nil {
		err = checkAlias(p.Name)
	}
	if err == nil && p.From == "" {
		err = errors.New("the persona is made from no model")
	}
	if err == nil && p.From == p.Name {
		err = errors.New("the persona is made from itself")
	}
	if err == nil && fileName(p.Name) != filepath.Base(path) {
		err = fmt.Errorf("the persona's name is %q, which is another file's", p.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Personas returns the personas, sorted by name. Unreadable ones are reported in the error, together with the readable
// ones.
func (h *Hub) Personas() ([]*persona.Persona, error) {
	entries, err := os.ReadDir(h.personas())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*persona.Persona
	var bad []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		p, err := readPersona(filepath.Join(h.personas(), e.Name()))
		switch {
		case err == nil:
			all = append(all, p)
		case !errors.Is(err, fs.ErrNotExist): // removed meanwhile
			bad = append(bad, fmt.Errorf("%w; \"quern rm %s\" removes it", err, strings.TrimSuffix(e.Name(), ".json")))
		}
	}
	slices.SortFunc(all, func(a, b *persona.Persona) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(bad...)
}

// Persona returns the persona of a name, or an error that wraps ErrNotFound.
func (h *Hub) Persona(name string) (*persona.Persona, error) {
	name = persona.BareName(name)
	if checkAlias(name) != nil {
		return nil, fmt.Errorf("%.80s: %w", name, ErrNotFound)
	}
	p, err := readPersona(h.personaPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return p, err
}

// Named returns the persona of a name, or else the model that Find returns; the other one is nil. Without either, the
// error wraps ErrNotFound. A persona that cannot be read is an error, and no model in its place.
func (h *Hub) Named(name string) (*persona.Persona, *Model, error) {
	p, err := h.Persona(name)
	if !errors.Is(err, ErrNotFound) {
		return p, nil, err
	}
	m, err := h.Find(name)
	return nil, m, err
}

// Create stores a persona, in place of one of that name, and returns it. One that is made from a persona is made from
// the model of that, with the settings of both. From may be a model that is not in the cache, whose name is kept as it
// is.
func (h *Hub) Create(ctx context.Context, p *persona.Persona) (*persona.Persona, error) {
	name := persona.BareName(p.Name)
	if err := checkAlias(name); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	unlock, err := h.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.free(name); err != nil {
		return nil, err
	}
	made, err := h.based(p)
	if err != nil {
		return nil, err
	}
	if made.From == name {
		return nil, fmt.Errorf("%s would be made from itself", name)
	}
	made.Name, made.Created = name, time.Now().UTC().Truncate(time.Second)
	return made, h.writePersona(made)
}

// free returns an error if a model has a name.
func (h *Hub) free(name string) error {
	if _, err := os.Stat(h.manifestPath(name)); err == nil {
		return fmt.Errorf("%s is a model in the cache; choose another name, or remove that with \"quern rm %s\"", name, name)
	}
	return nil
}

// based returns a persona above the settings of what it is made from.
func (h *Hub) based(p *persona.Persona) (*persona.Persona, error) {
	base, m, err := h.Named(p.From)
	var made *persona.Persona
	switch {
	case errors.Is(err, ErrNotFound):
		made = p.Over(nil)
	case err != nil:
		return nil, err
	case base != nil:
		made = p.Over(base)
		made.From = base.From
	default:
		made = p.Over(m.Persona)
		made.From = m.Name
	}
	return made, nil
}

// writePersona writes the file of a persona. The caller holds the lock.
func (h *Hub) writePersona(p *persona.Persona) error {
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.personas(), 0o755); err != nil {
		return diskError(err)
	}
	return replaceFile(h.personaPath(p.Name), b)
}

// removePersona removes a persona, readable or not, and reports whether there was one. The caller holds the lock.
func (h *Hub) removePersona(name string) (bool, error) {
	name = persona.BareName(name)
	if checkAlias(name) != nil {
		return false, nil
	}
	err := os.Remove(h.personaPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// usedBy returns the names of the personas that are made from a model.
func (h *Hub) usedBy(m *Model) (names []string) {
	all, _ := h.Personas()
	for _, p := range all {
		if p.From == m.Name {
			names = append(names, p.Name)
		}
	}
	return names
}
