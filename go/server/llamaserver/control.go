package llamaserver

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

// control ends the reasoning of a running request.
func (s *API) control(req *answer.Request) error {
	q := newControlQuery(req.Model)
	if err := req.Read(q); err != nil {
		return err
	}
	g := s.Host.Running.Generation(q.id, &req.Caller)
	if g == nil {
		return &reply.Error{Status: http.StatusNotFound, Message: "no request with the id " + field.Quote(q.id) + " runs",
			Param: "id"}
	}
	g.Enough.Store(true)
	req.Send(success{true})
	return nil
}
