package openai

import (
	"context"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
)

// What tests call.
type (
	CustomText = customText
	Response   = response
)

// Converse reads the body of a request to /v1/responses for a model, and returns its conversation.
func Converse(ctx context.Context, stored *history.Store, body []byte, m *ask.Model) (*ask.Conversation, error) {
	q := (&API{Stored: stored}).newResponsesQuery(m)
	if err := field.Read(body, q.Fields()); err != nil {
		return nil, err
	}
	_, err := q.Source(ctx, m)
	return &q.Conversation, err
}
