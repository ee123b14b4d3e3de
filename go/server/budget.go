package server

import (
	"math"
	"net/http"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A budget holds the fields that bound the reasoning of an answer.
type budget struct {
	tokens  int // -1: no bound
	message string
	control bool
}

func newBudget() budget { return budget{tokens: -1} }

func (b *budget) Fields() []field.Field {
	return []field.Field{
		field.Setting("reasoning_budget_tokens thinking_budget_tokens reasoning_budget", field.Integer(&b.tokens, -1, math.MaxInt32), "Tokens after which the reasoning is ended; -1 never."),
		field.Setting("reasoning_budget_message", field.Text(&b.message), "What the model is made to say at the end of its reasoning where the budget ends it."),
		field.Setting("reasoning_control", field.Boolean(&b.control), "Lets /v1/chat/completions/control end the reasoning while it runs."),
	}
}

// of returns the bound of replies to a prompt, nil for none.
func (b *budget) of(m *Model, prompt *chat.Prompt) *constrain.Budget {
	if prompt == nil || b.tokens < 0 && !b.control {
		return nil
	}
	t, ok := prompt.Thinking()
	if !ok {
		return nil
	}
	return &constrain.Budget{
		Stretch: constrain.Stretch{Open: t.Open, Shut: t.Shut, Begun: t.Begun, Again: t.Again},
		Tokens:  b.tokens,
		Closing: m.Tokenizer.Encode(b.message+t.Closing, tokenizer.Options{NoSpecial: true, ParseSpecial: true, Literal: [][2]int{{0, len(b.message)}}}),
		N:       m.Tokenizer.Len(),
		Spell: func(id int32, yield func(byte)) {
			for _, c := range m.Tokenizer.Piece(id, true) {
				yield(c)
			}
		},
	}
}

// A controlQuery is a request to /v1/chat/completions/control.
type controlQuery struct{ id, action string }

func newControlQuery(*Model) *controlQuery { return &controlQuery{} }

func (q *controlQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("id", field.Text(&q.id), "The id in the answer's events, or in the header X-Completion-Id."),
		field.Required("action", field.OneOf(&q.action, "reasoning_end"), "What to do."),
	}
}

// controlRunning ends the reasoning of a running request.
func (s *Server) controlRunning(req *Request) error {
	m := req.Model
	q := newControlQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	g := s.running.generation(q.id, &req.Caller)
	if g == nil {
		return &reply.Error{Status: http.StatusNotFound, Message: "no request with the id " + field.Quote(q.id) + " runs", Param: "id"}
	}
	g.enough.Store(true)
	req.Send(success{true})
	return nil
}
