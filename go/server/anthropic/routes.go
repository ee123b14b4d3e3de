// Package anthropic serves Anthropic's API: /v1/messages, its fields, blocks, events and errors.
package anthropic

import (
	"net/http"

	"github.com/quern-llm/quern/go/server/answer"
)

// Routes are those of the API.
func Routes() []answer.Route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return []answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/v1/messages"},
			Handle: answer.Generates("msg_", newQuery), Summary: "Answer a conversation, as Anthropic does",
			Dialect: Dialect{}, Body: answer.BodyOf("MessagesRequest", newQuery), Stream: true, Answer: message{},
			Example: map[string]any{"messages": hello, "max_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/messages/count_tokens"},
			Handle: countTokens, Summary: "Count the tokens of a conversation, as Anthropic does",
			Dialect: Dialect{}, Body: answer.BodyOf("CountTokensRequest", newCountQuery), Answer: count{},
			Example: map[string]any{"messages": hello},
		},
	}
}
