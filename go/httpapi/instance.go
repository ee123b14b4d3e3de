package httpapi

import (
	"context"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/server"
)

// An instance is an open model as the server has it: it shares the loop of the program, and is never what frees memory.
type instance struct {
	model server.Model
	leave func()
}

// source returns a model as what the server loads. open ends with the handler.
func source(m Model, open context.Context) server.Source {
	src := server.Source{Path: m.Name}
	src.Names, src.Starting = append([]string{m.Name}, m.Aliases...), true
	src.Need = func(uint64) (uint64, error) { return 0, nil }
	src.Load = func(context.Context, func(float64)) (server.Instance, error) {
		if open.Err() != nil {
			return nil, context.Cause(open)
		}
		running, leave, err := launch.RunningOf(m.Model)
		if err != nil {
			return nil, err // not a non-nil Instance that holds nil
		}
		return &instance{describe(m, running), leave}, nil
	}
	return src
}

// describe returns what the server knows of a model.
func describe(m Model, r *launch.Running) server.Model {
	s := server.Describe(r.Head.File, r.Model.Engine, r.Head.Tokenizer, r.Template, r.Adapters)
	s.Engine, s.Path, s.Fingerprint, s.TemplateWarning = shared{r.Loop}, m.Name, fingerprint(r.Model.Engine), r.TemplateWarning
	s.Sampling, s.Projector = r.Sampling, r.Model.Projector
	s.Memory, s.Spare = r.Device.Budget(), r.Device.Give
	return s
}

// Model, Bytes and the others implement models.Instance.
func (i *instance) Model() *server.Model { return &i.model }

func (i *instance) Bytes() uint64 { return 0 }

func (i *instance) Need(uint64) (uint64, error) { return 0, nil }

func (i *instance) Sleep() error { return errShared }

func (i *instance) Wake(context.Context, func(float64)) error { return errShared }

func (i *instance) Drain(context.Context) {}

func (i *instance) Close() { i.leave() }

// shared is the program's loop as the server knows it.
type shared struct{ *engine.Loop }

func (s shared) Submit(r *engine.Request) (server.Ticket, error) {
	t, err := s.Loop.Submit(r)
	if err != nil {
		return nil, err // not a non-nil Ticket that holds nil
	}
	return t, nil
}
