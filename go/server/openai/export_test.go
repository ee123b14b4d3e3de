package openai

import (
	"context"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
)

// What tests call.
var Seal = seal

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

// Cited returns what a text names of pages, by their URLs and titles.
func Cited(pages map[string]string, text string) (all []string) {
	for _, c := range citable(pages).cited(text) {
		all = append(all, c.Title+" "+string([]rune(text)[c.Start:c.End]))
	}
	return all
}
