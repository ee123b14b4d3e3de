package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Tuner fine-tunes models.
type Tuner interface {
	// Identity returns a hash of the file of a model, as it is now.
	Identity(name string) (string, error)
	// Tune runs a fine-tuning job, as batch.Tuner.Do.
	Tune(ctx context.Context, w *batch.Work) error
}

// RunTuning runs fine-tuning jobs until ctx ends.
func (s *Server) RunTuning(ctx context.Context) {
	if s.c.Batches == nil || s.c.Tune == nil {
		return
	}
	t := batch.Tuner{Store: s.c.Batches, Do: s.c.Tune.Tune, Log: func(job string, err error) {
		e := s.c.Log.Error().Str("job", job).Err(err)
		if p := (*panics.Panic)(nil); errors.As(err, &p) {
			e = e.Bytes("stack", p.Stack)
		}
		e.Msg("a fine-tuning job failed")
	}}
	t.Run(ctx)
}

// tunedPrefix is what names of fine-tuned models begin with.
const tunedPrefix = "ft:"

// tunable returns a model that may be fine-tuned.
func (s *Server) tunable(req *answer.Request, name string) (base batch.Base, err error) {
	if strings.HasPrefix(name, tunedPrefix) {
		return base, reply.Invalid("model", "%s is fine-tuned already, want the model that it was made from", field.Quote(name))
	}
	meant, err := s.list.Resolve(name)
	if err != nil {
		return base, err
	}
	if meant.Persona != nil || meant.Adapter != "" {
		return base, reply.Invalid("model", "%s is a model with something added, want the model itself", field.Quote(name))
	}
	st, err := s.models.Status(meant.Model)
	if err != nil {
		return base, err
	}
	if err := s.allowed(req, meant, nil); err != nil {
		return base, err
	}
	base.Name = st.Names[0]
	if base.Identity, err = s.c.Tune.Identity(base.Name); err != nil {
		return base, err
	}
	if st.Model != nil && st.Model.Identity != base.Identity {
		return base, reply.Invalid("model", "the file of %s has changed since it was loaded; an administrator has to load it again", base.Name)
	}
	return base, nil
}

// tuned returns the fine-tuned model that a request names, or nil, and the name of the model that it needs.
func (s *Server) tuned(req *answer.Request) (*batch.TunedModel, string, error) {
	if s.c.Tune == nil || !strings.HasPrefix(req.Name, tunedPrefix) || s.list.Has(req.Name) {
		return nil, req.Name, nil
	}
	m, ok := s.c.Batches.Tuned(req.Caller.Owner, req.Name)
	if !ok {
		return nil, "", &models.NotFoundError{Name: req.Name, Names: s.list.Names()}
	}
	return &m, m.Base.Name, nil
}

// tunedModels returns the fine-tuned models of a request's caller.
func (s *Server) tunedModels(req *answer.Request) []batch.TunedModel {
	if s.c.Tune == nil {
		return nil
	}
	return s.c.Batches.TunedModels(req.Caller.Owner)
}

// untuned unloads a fine-tuned model that was deleted.
func (s *Server) untuned(name string) {
	for _, m := range s.models.Loaded() {
		m.Untune(name)
	}
}

// tunedAdapter returns the adapter of a fine-tuned model, which the caller releases.
func (s *Server) tunedAdapter(req *answer.Request, t *batch.TunedModel) (*ask.Adapter, error) {
	if req.Model.Identity != t.Base.Identity {
		return nil, &reply.Error{Status: http.StatusNotFound, Message: fmt.Sprintf(
			"%s cannot be used: the file of %s has changed since; fine-tune it again", t.Name, t.Base.Name)}
	}
	a, err := req.Model.TunedAdapter(req.Context(), t.Name, t.Path)
	if _, still := s.c.Batches.Tuned(req.Caller.Owner, t.Name); !still { // it was deleted while it was loaded
		if err == nil {
			req.Model.Untune(t.Name)
			req.Model.Tuned.Release(a)
		}
		return nil, &models.NotFoundError{Name: t.Name, Names: s.list.Names()}
	}
	if full := (*mem.LimitError)(nil); errors.Is(err, engine.ErrAdapters) || errors.As(err, &full) {
		return nil, &reply.Error{Status: http.StatusServiceUnavailable, Message: "the fine-tuned model cannot be loaded: " +
			strings.TrimPrefix(err.Error(), t.Path+": ")}
	}
	return a, err
}
