package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/ask"
)

// A Source is a model that can be loaded, and what is known of it before.
type Source struct {
	models.Spec[ask.Model]
	Tags     []string
	Path     string
	Settings []string      // that differ from those of other models, as flags
	Info     ask.ModelInfo // as far as it is known
	Ctx      int           // positions of a sequence, if they were chosen; 0: as many as the model was trained with, or as fit
	Modified time.Time     // of the file
}

// sources are the models' sources by their own names.
type sources struct {
	mu     sync.Mutex
	byName map[string]*Source
}

func (s *sources) get(name string) *Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

func (s *sources) set(name string, src *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*Source{}
	}
	if s.byName[name] = src; src == nil {
		delete(s.byName, name)
	}
}

// A resident is a loaded model of a Server.
type resident struct {
	models.Instance[ask.Model]
	server *Server
}

// Close implements models.Instance.
func (r resident) Close() {
	r.server.host.Running.Forget(r.Model())
	r.server.adapted.n.Add(-int64(len(r.Model().LoRA.All())))
	r.Instance.Close()
}

// Add adds a model, which is loaded when it is wanted. A name that another has is an error.
func (s *Server) Add(src Source) error {
	load, names := src.Load, src.Names
	src.Load = func(ctx context.Context, progress func(float64)) (models.Instance[ask.Model], error) {
		inst, err := load(ctx, progress)
		if err != nil {
			return nil, err
		}
		m := inst.Model()
		m.Name, m.Aliases = names[0], slices.Clone(names[1:])
		m.Complete()
		s.adapted.n.Add(int64(len(m.Adapters)))
		return resident{inst, s}, nil
	}
	if err := s.models.Add(src.Spec); err != nil {
		return err
	}
	s.sources.set(names[0], &src)
	return nil
}

// Remove removes a model: it is unloaded when the requests that use it have ended.
func (s *Server) Remove(name string) {
	s.models.Remove(name)
	s.sources.set(name, nil)
}

// Load loads a model and returns when that is done.
func (s *Server) Load(name string) error { return s.models.Await(name) }

// LongestContext returns the most positions that a sequence of a model may have, loaded or not.
func (s *Server) LongestContext() int {
	s.sources.mu.Lock()
	defer s.sources.mu.Unlock()
	n := 0
	for _, src := range s.sources.byName {
		n = max(n, cmp.Or(src.Ctx, src.Info.NCtxTrain))
	}
	return n
}

// Models returns the models.
func (s *Server) Models() *models.Set[ask.Model] { return s.models }
