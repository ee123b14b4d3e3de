package ask

import (
	"math"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/server/field"
)

// A budget holds the fields that bound the reasoning of an answer.
type budget struct {
	Tokens  int // -1: no bound
	message string
	control bool
}

func newBudget() budget { return budget{Tokens: -1} }

func (b *budget) Fields() []field.Field {
	return []field.Field{
		field.Setting("reasoning_budget_tokens thinking_budget_tokens reasoning_budget",
			field.Integer(&b.Tokens, -1, math.MaxInt32), "Tokens after which the reasoning is ended; -1 never."),
		field.Setting("reasoning_budget_message", field.Text(&b.message),
			"What the model is made to say at the end of its reasoning where the budget ends it."),
		field.Setting("reasoning_control", field.Boolean(&b.control),
			"Lets /v1/chat/completions/control end the reasoning while it runs."),
	}
}

// Of returns the bound of replies to a prompt, nil for none.
func (b *budget) Of(m *Model, prompt *chat.Prompt) *constrain.Budget {
	if prompt == nil || b.Tokens < 0 && !b.control {
		return nil
	}
	return form.Budget(m.Tokenizer, prompt, b.Tokens, b.message)
}
