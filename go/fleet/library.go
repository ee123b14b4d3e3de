package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/persona"
)

// A pulled is a downloaded model, by the names that clients may use.
type pulled struct {
	names   []string
	path    string
	persona *persona.Persona // settings that it came with; nil: none
}

// downloaded returns the downloaded models that are served.
func (c *Catalog) downloaded(log zerolog.Logger) []pulled {
	if c.Hub == nil {
		return nil
	}
	models, err := c.Hub.List()
	if err != nil {
		log.Warn().Msg(usage.OneLine(fmt.Errorf("downloaded models that cannot be read are left out: %w", err)))
	}
	var all []pulled
	for _, m := range models {
		if m.Skipped != "" {
			log.Warn().Str("model", m.Short()).Msg(m.Skipped)
		}
		names := []string{m.Short()}
		for _, name := range append([]string{m.Name}, m.Asked...) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		all = append(all, pulled{names, c.Hub.Path(m), m.Persona})
	}
	return all
}

// A library is the downloaded models as clients of a server change them. It implements server.Library.
type library struct {
	*hub.Hub
	fits func(path string) error
	list *lister
}

// Resolve implements server.Library.
func (l *library) Resolve(ctx context.Context, ref hub.Ref) (*hub.Plan, error) {
	return l.Hub.Resolve(ctx, ref)
}

// Pull implements server.Library.
func (l *library) Pull(ctx context.Context, plan *hub.Plan, asked string, progress func(hub.Progress)) error {
	_, err := l.Hub.Pull(ctx, plan, hub.Options{Check: l.fits, Progress: progress, Asked: asked})
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

// Create implements server.Library.
func (l *library) Create(ctx context.Context, p *persona.Persona) error {
	_, err := l.Hub.Create(ctx, p)
	return l.changed(err)
}

// changed brings the list of models up to date after a change.
func (l *library) changed(err error) error {
	if err != nil {
		return err
	}
	_, err = l.list.scan()
	return err
}
