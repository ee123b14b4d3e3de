package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/usage"
)

// usesCache reports whether the downloaded models are served: where none is named with -m.
func (f *serveFlags) usesCache() bool { return len(f.models) == 0 && !f.listed }

// fits is modelFlags.fits for a server, whose context is as long as the memory allows.
func (f *serveFlags) fits(path string) error {
	m := f.model
	if m.ctx == 0 {
		m.ctx = -1
	}
	return m.fits(path)
}

// A pulled is a downloaded model, by the names that clients may use.
type pulled struct {
	names []string
	path  string
}

// cached returns the downloaded models that are served.
func (f *serveFlags) cached(logs zerolog.Logger) []pulled {
	if !f.usesCache() {
		return nil
	}
	h, err := f.model.hub.open(0)
	if err != nil {
		logs.Warn().Err(err).Msg("downloaded models are not served")
		return nil
	}
	models, err := h.List()
	if err != nil {
		logs.Warn().Msg(usage.OneLine(fmt.Errorf("downloaded models that cannot be read are left out: %w", err)))
	}
	var all []pulled
	for _, m := range models {
		names := []string{m.Short()}
		for _, name := range append([]string{m.Name}, m.Asked...) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		all = append(all, pulled{names, h.Path(m)})
	}
	return all
}

// distinct leaves out names that another model has, the first of which keeps it, and models that are left without any.
func distinct(models, before []*listed) []*listed {
	taken := map[string]bool{}
	for _, m := range before {
		for _, name := range m.names {
			taken[name] = true
		}
	}
	var all []*listed
	for _, m := range models {
		m.names = slices.DeleteFunc(m.names, func(name string) bool { return taken[name] })
		for _, name := range m.names {
			taken[name] = true
		}
		if len(m.names) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// presetModel returns the file that a preset names: model = FILE or a downloaded one, or hf-repo; empty if it names none.
func (f *serveFlags) presetModel(c *configured) (string, error) {
	name, err := c.model.hub.named()
	if err != nil {
		return "", err
	}
	if n := len(c.models); n > 0 {
		if name != "" {
			return "", errors.New("model and hf-repo both name a model; give one")
		}
		name = c.models[n-1].path
	}
	return f.downloaded(name)
}

// presetDraft is presetModel for the model that drafts.
func (f *serveFlags) presetDraft(c *configured) (string, error) {
	name, err := c.draft.named()
	if err != nil {
		return "", err
	}
	return f.downloaded(name)
}

// downloaded returns the path of a file, or of a model that was downloaded.
func (f *serveFlags) downloaded(name string) (string, error) {
	if _, err := hub.ParseRef(name); err != nil {
		return name, nil // a file
	}
	h, err := f.model.hub.open(0)
	if err != nil {
		return "", err
	}
	m, err := h.Find(name)
	if err != nil {
		return "", fmt.Errorf("%w; \"quern pull %s\" downloads it", err, name)
	}
	return h.Path(m), nil
}

// A library is the cache as clients of a server change it. It implements server.Library.
type library struct {
	*hub.Hub
	flags *serveFlags
	list  *lister
}

// Resolve implements server.Library.
func (l *library) Resolve(ctx context.Context, ref hub.Ref) (*hub.Plan, error) {
	return l.Hub.Resolve(ctx, ref)
}

// Pull implements server.Library.
func (l *library) Pull(ctx context.Context, plan *hub.Plan, asked string, progress func(hub.Progress)) error {
	_, err := l.Hub.Pull(ctx, plan, hub.Options{Check: l.flags.fits, Progress: progress, Asked: asked})
	return l.changed(err)
}

// Remove implements server.Library.
func (l *library) Remove(ctx context.Context, name string) error {
	_, _, err := l.Hub.Remove(ctx, name)
	return l.changed(err)
}

// Copy implements server.Library.
func (l *library) Copy(ctx context.Context, from, to string) error {
	return l.changed(l.Hub.Copy(ctx, from, to))
}

// changed brings the list of models up to date after a change.
func (l *library) changed(err error) error {
	if err != nil {
		return err
	}
	_, err = l.list.scan()
	return err
}

// library returns the cache for clients to change; nil if they may not.
func (f *serveFlags) library(list *lister) (*library, error) {
	if !f.usesCache() || !f.pulls {
		return nil, nil
	}
	h, err := f.model.hub.open(0)
	if err != nil {
		return nil, err
	}
	return &library{h, f, list}, nil
}
