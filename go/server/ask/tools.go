package ask

import (
	"context"
	stdjson "encoding/json" // for the type of chat's values

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Toolbox holds the fields of a chat that say which tools the model may call.
type Toolbox struct {
	Tools    Tools
	Choice   ToolChoice
	Parallel bool
}

func newToolbox() Toolbox { return Toolbox{Parallel: true} }

func (b *Toolbox) Fields() []field.Field {
	return []field.Field{
		field.Input("tools", &b.Tools, `Functions that the model may call, such as {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}, and custom tools, whose input is a text: {"type": "custom", "custom": {"name": "patch"}}, any text or, with a format, one of a grammar.`),
		field.Input("functions", bareTools{&b.Tools},
			"The older form of tools, without the object around each. Answers then have function_call in place of tool_calls."),
		field.Input("tool_choice", &b.Choice, `Which of them: none, auto, required, {"type": "function", "function": {"name": "get_time"}}, {"type": "custom", "custom": {"name": "patch"}}, or allowed_tools with some of them.`),
		field.Input("function_call", oldChoice{&b.Choice},
			`The older form of tool_choice: none, auto or {"name": "get_time"}.`),
		field.Setting("parallel_tool_calls", field.Boolean(&b.Parallel), "Whether one answer may have several calls."),
	}
}

// settle checks the choice against the tools.
func (b *Toolbox) settle() error {
	param := "tool_choice"
	if b.Choice.old {
		param = "function_call"
	}
	switch {
	case b.Tools.twice:
		return reply.Invalid("functions", "given together with tools, want one of them")
	case b.Choice.twice:
		return reply.Invalid("function_call", "given together with tool_choice, want one of them")
	case len(b.Tools.list) == 0 && (b.Choice.Mode == "required" || b.Choice.Names != nil):
		return reply.Invalid(param, "given without tools, want some in tools")
	}
	for _, name := range b.Choice.Names {
		if !b.Tools.has(name) {
			return reply.Invalid(param, "no tool has the name %s", field.Quote(name))
		}
	}
	return nil
}

// shown returns the tools that the template is given.
func (b *Toolbox) shown() []stdjson.RawMessage {
	if b.Choice.Mode == "none" {
		return nil
	}
	var all []stdjson.RawMessage
	for _, t := range b.Tools.list {
		all = append(all, t.raw)
	}
	return all
}

// rule returns which calls the answer may have, nil where there are none. It ends with the context.
func (b *Toolbox) rule(ctx context.Context) (*chat.CallRule, error) {
	if len(b.Tools.list) == 0 || b.Choice.Mode == "none" {
		return nil, nil
	}
	var strict []string
	inputs := map[string]*grammar.Grammar{}
	for _, t := range b.Tools.list {
		if t.input != nil {
			g, err := form.Input(ctx, t.input.Syntax, t.input.Definition)
			switch {
			case err != nil && ctx.Err() != nil:
				return nil, Ended(ctx)
			case err != nil:
				return nil, reply.Invalid("tools", "the tool %s: format: %s", field.Quote(t.Name), oneLine(err))
			}
			inputs[t.Name] = g
		}
		if t.Strict {
			strict = append(strict, t.Name)
		}
	}
	return &chat.CallRule{Strict: strict, Required: b.Choice.Mode == "required", Single: !b.Parallel || b.Tools.Old,
		Names: b.Choice.Names, Inputs: inputs}, nil
}
