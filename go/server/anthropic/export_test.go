package anthropic

import (
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// What tests call.
var (
	ModelID   = modelID
	NewID     = newID
	Signature = signature
	TooLong   = tooLong
)

// Converse reads a body, and returns its conversation.
func Converse(body []byte) (*ask.Conversation, error) {
	q := (&API{}).newQuery(&ask.Model{})
	if err := field.ReadSome(body, q.Fields()); err != nil {
		return nil, err
	}
	return &q.Conversation, q.converse()
}
