package server

import (
	"context"
	"errors"
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

// A Tuner runs a fine-tuning job, as batch.Tuner.Do.
type Tuner func(ctx context.Context, w *batch.Work) error

// RunTuning runs fine-tuning jobs until ctx ends.
func (s *Server) RunTuning(ctx context.Context) {
	if s.c.Batches == nil || s.c.Tune == nil {
		return
	}
	t := batch.Tuner{Store: s.c.Batches, Do: s.c.Tune, Log: func(job string, err error) {
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

// tunable returns the own name of a model that may be fine-tuned.
func (s *Server) tunable(name string) (string, error) {
	if strings.HasPrefix(name, tunedPrefix) {
		return "", reply.Invalid("model", "%s is fine-tuned already, want the model that it was made from", field.Quote(name))
	}
	meant, err := s.list.Resolve(name)
	if err != nil {
		return "", err
	}
	if meant.Persona != nil || meant.Adapter != nil {
		return "", reply.Invalid("model", "%s is a model with something added, want the model itself", field.Quote(name))
	}
	st, err := s.models.Status(meant.Model)
	if err != nil {
		return "", err
	}
	return st.Names[0], nil
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
	return &m, m.Base, nil
}

// tunedModels returns the names of the fine-tuned models of a request's caller, and of what they were made.
func (s *Server) tunedModels(req *answer.Request) []batch.TunedModel {
	if s.c.Tune == nil {
		return nil
	}
	return s.c.Batches.TunedModels(req.Caller.Owner)
}

// tunedAdapter returns the adapter of a fine-tuned model, which the caller releases.
func (s *Server) tunedAdapter(req *answer.Request, t *batch.TunedModel) (*ask.Adapter, error) {
	a, err := req.Model.TunedAdapter(req.Context(), t.Name, t.Path)
	if full := (*mem.LimitError)(nil); errors.Is(err, engine.ErrAdapters) || errors.As(err, &full) {
		return nil, &reply.Error{Status: http.StatusServiceUnavailable, Message: "the fine-tuned model cannot be loaded: " +
			strings.TrimPrefix(err.Error(), t.Path+": ")}
	}
	return a, err
}
