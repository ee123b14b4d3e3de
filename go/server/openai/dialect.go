package openai

import (
	"errors"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

// Dialect is OpenAI's dialect: its clients look at the codes of some errors.
type Dialect struct{ answer.Plain }

// codeTooLong is the code of prompts that exceed the context.
const codeTooLong = "context_length_exceeded"

func (Dialect) Refine(e *reply.Error, cause error) {
	var long *engine.TooLongError
	var missing *models.NotFoundError
	var over *quota.Error
	var barred *quota.ModelError
	switch {
	case errors.As(cause, &long):
		e.Extra["code"] = codeTooLong
	case errors.As(cause, &over) && (over.Kind == quota.Requests || over.Kind == quota.Concurrent):
		e.Extra = map[string]any{"type": "requests", "code": "rate_limit_exceeded"}
	case errors.As(cause, &over):
		e.Extra = map[string]any{"type": "tokens", "code": "rate_limit_exceeded"}
	case errors.As(cause, &barred):
		e.Extra = map[string]any{"code": "model_not_found"}
	case errors.As(cause, &missing):
		e.Extra = map[string]any{"type": "invalid_request_error", "code": "model_not_found"}
	}
}

// ErrorSchema tells of the codes that Refine gives.
func (Dialect) ErrorSchema() field.Schema {
	return answer.ErrorSchema(field.Schema{"anyOf": []field.Schema{
		{"type": "integer", "description": "The status."}, {"enum": []string{codeTooLong, "model_not_found",
			"rate_limit_exceeded"}},
	}})
}
