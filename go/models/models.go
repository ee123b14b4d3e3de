// Package models is a server's registry of models by name. A model may still be loading;
// a loaded one is leased to each request that uses it.
//
// With a single model names are not needed: it is returned for any name.
package models

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// ErrLoading reports that the model of a name is still loading.
var ErrLoading = errors.New("the model is being loaded")

// A NotFoundError reports that no model has the name.
type NotFoundError struct {
	Name  string
	Names []string // names of all models
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no model %q, want one of %s", e.Name, strings.Join(e.Names, ", "))
}

// A Set is models of type M, the first of which is the default. It is safe for
// concurrent use once all have been added.
type Set[M any] struct {
	entries []*Entry[M]
	by      map[string]*Entry[M]
}

// Add registers a model as loading. The first of its names is its own, the others are
// aliases. A name that another model has is an error.
func (s *Set[M]) Add(names ...string) (*Entry[M], error) {
	for _, name := range names {
		if other := s.by[name]; other != nil {
			return nil, fmt.Errorf("two models are called %q", name)
		}
	}
	e := &Entry[M]{names: names}
	if s.by == nil {
		s.by = map[string]*Entry[M]{}
	}
	for _, name := range names {
		s.by[name] = e
	}
	s.entries = append(s.entries, e)
	return e, nil
}

// Several reports whether requests have to name the model.
func (s *Set[M]) Several() bool { return len(s.entries) > 1 }

// Ready reports whether all models are loaded.
func (s *Set[M]) Ready() bool {
	return len(s.entries) > 0 && !slices.ContainsFunc(s.entries, func(e *Entry[M]) bool { return e.model.Load() == nil })
}

// Loaded returns the models that are loaded, the default first.
func (s *Set[M]) Loaded() []*M {
	var all []*M
	for _, e := range s.entries {
		if m := e.model.Load(); m != nil {
			all = append(all, m)
		}
	}
	return all
}

// Has reports whether a model has the name.
func (s *Set[M]) Has(name string) bool { return s.by[name] != nil }

// Names returns each model's own name, the default's first.
func (s *Set[M]) Names() []string {
	var names []string
	for _, e := range s.entries {
		names = append(names, e.names[0])
	}
	return names
}

// Acquire leases the model of a name; the default if the name is empty or there is no
// other. The error is a *NotFoundError, ErrLoading, or that of ctx.
func (s *Set[M]) Acquire(ctx context.Context, name string) (*Lease[M], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(s.entries) == 0 {
		return nil, ErrLoading
	}
	e := s.entries[0]
	if name != "" && s.Several() {
		if e = s.by[name]; e == nil {
			return nil, &NotFoundError{name, s.Names()}
		}
	}
	m := e.model.Load()
	if m == nil {
		return nil, ErrLoading
	}
	e.leases.Add(1)
	return &Lease[M]{m, e}, nil
}

// An Entry is a model's place in a Set.
type Entry[M any] struct {
	names  []string
	model  atomic.Pointer[M] // nil while it is loading
	leases atomic.Int64
}

// Loaded makes the model available to requests.
func (e *Entry[M]) Loaded(m *M) { e.model.Store(m) }

// Names returns the model's names, its own first.
func (e *Entry[M]) Names() []string { return e.names }

// Leases returns the number of leases that have not been released.
func (e *Entry[M]) Leases() int { return int(e.leases.Load()) }

// A Lease is the right to use a model until it is released, once.
type Lease[M any] struct {
	Model *M
	entry *Entry[M]
}

// Release releases the lease.
func (l *Lease[M]) Release() { l.entry.leases.Add(-1) }
