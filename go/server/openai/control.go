package openai

import (
	"net/http"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A controlQuery is a request to /v1/chat/completions/control.
type controlQuery struct{ id, action string }

func newControlQuery(*ask.Model) *controlQuery { return &controlQuery{} }

func (q *controlQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("id", field.Text(&q.id), "The id in the answer's events, or in the header X-Completion-Id."),
		field.Required("action", field.OneOf(&q.action, "reasoning_end"), "What to do."),
	}
}

// controlRunning ends the reasoning of a running request.
func (s *API) controlRunning(req *answer.Request) error {
	m := req.Model
	q := newControlQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	g := s.Host.Running.Generation(q.id, &req.Caller)
	if g == nil {
		return &reply.Error{Status: http.StatusNotFound, Message: "no request with the id " + field.Quote(q.id) + " runs", Param: "id"}
	}
	g.Enough.Store(true)
	req.Send(controlled{true})
	return nil
}

// cancelled is the response to a cancellation.
type cancelled struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Cancelled bool   `json:"cancelled"`
}

// cancelRunning cancels a running request by its id.
func (s *API) cancelRunning(req *answer.Request) error {
	id := req.HTTP.Param("id")
	g := s.Host.Running.Generation(id, &req.Caller)
	if g == nil {
		return &reply.Error{Status: http.StatusNotFound, Message: "no request with the id " + field.Quote(id) + " runs"}
	}
	g.Cancel()
	req.Send(cancelled{id, "completion.cancelled", true})
	return nil
}

// controlled is the answer to a request that was obeyed.
type controlled struct {
	Success bool `json:"success"`
}
