// Package anthropic serves Anthropic's API: /v1/messages, its fields, blocks, events and errors.
package anthropic

import (
	"net/http"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
)

// API serves Anthropic's API.
type API struct {
	Host    *answer.Host
	Servers agent.Servers // whose tools are called for requests that name them; nil: there are none
	Web     agent.Web     // for requests that have tools of the web
	Limits  agent.Limits
}

// Routes are those of the API.
func (s *API) Routes() []answer.Route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return []answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/v1/messages"},
			Handle: s.createMessage, Summary: "Answer a conversation, as Anthropic does",
			Dialect: Dialect{}, Body: answer.BodyOf("MessagesRequest", s.newQuery), Stream: true, Answer: message{},
			Example: map[string]any{"messages": hello, "max_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/messages/count_tokens"},
			Handle: s.countTokens, Summary: "Count the tokens of a conversation, as Anthropic does",
			Dialect: Dialect{}, Body: answer.BodyOf("CountTokensRequest", s.newCountQuery), Answer: count{},
			Example: map[string]any{"messages": hello},
		},
	}
}
