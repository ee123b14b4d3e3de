package catalog

import (
	"context"
	"errors"
	"sync"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Persona is a persona of a model of the catalog, which serves its requests.
type Persona struct {
	*ask.Persona
	Base string // the model's own name
}

// personas are those of the models, by name.
type personas struct {
	mu  sync.Mutex
	all []Persona
}

func (s *personas) get(name string) *Persona {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].Name == name {
			return &s.all[i]
		}
	}
	return nil
}

func (s *personas) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) > 0
}

func (s *personas) list() []Persona {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// SetPersonas replaces the personas. Their models are in the catalog, and their names are not.
func (s *Catalog) SetPersonas(all []Persona) {
	s.personas.mu.Lock()
	defer s.personas.mu.Unlock()
	s.personas.all = all
}

// Personas returns the personas of a model, by its own name.
func (s *Catalog) Personas(model string) (all []Persona) {
	for _, p := range s.personas.list() {
		if p.Base == model {
			all = append(all, p)
		}
	}
	return all
}

// Create stores a persona of a model that the server has.
func (s *Catalog) Create(ctx context.Context, p *persona.Persona) error {
	if s.Library == nil {
		return reply.Unsupported("this server stores nothing with a name: it was started with -m, or with " +
			"--no-models-pull; " +
			"send system or messages, and options, with each request")
	}
	from := s.Untagged(p.From)
	if !s.Has(from) {
		return &models.NotFoundError{Name: p.From, Names: s.Names()}
	}
	p.From = from
	if _, err := ask.NewPersona(p); err != nil {
		return reply.Bad("%v", err)
	}
	if name := persona.BareName(p.Name); s.Set.Has(name) {
		if _, err := s.Library.Find(name); errors.Is(err, hub.ErrNotFound) { // the cache refuses the names of its own
			return reply.Invalid("model", "the name %s is that of a model which is not in the cache, want another", field.Quote(name))
		}
	}
	if err := s.Library.Create(ctx, p); err != nil {
		return reply.Invalid("model", "%v", err)
	}
	return nil
}
