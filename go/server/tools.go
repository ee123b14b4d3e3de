package server

import (
	stdjson "encoding/json" // for the type of chat's values

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// toolbox holds the fields of a chat that say which tools the model may call.
type toolbox struct {
	tools    tools
	choice   toolChoice
	parallel bool
}

func newToolbox() toolbox { return toolbox{parallel: true} }

func (b *toolbox) Fields() []field.Field {
	return []field.Field{
		field.Input("tools", &b.tools, `Functions that the model may call, such as {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}, and custom tools, whose input is a text: {"type": "custom", "custom": {"name": "patch"}}, any text or, with a format, one of a grammar.`),
		field.Input("functions", bareTools{&b.tools}, "The older form of tools, without the object around each. Answers then have function_call in place of tool_calls."),
		field.Input("tool_choice", &b.choice, `Which of them: none, auto, required, {"type": "function", "function": {"name": "get_time"}}, {"type": "custom", "custom": {"name": "patch"}}, or allowed_tools with some of them.`),
		field.Input("function_call", oldChoice{&b.choice}, `The older form of tool_choice: none, auto or {"name": "get_time"}.`),
		field.Setting("parallel_tool_calls", field.Boolean(&b.parallel), "Whether one answer may have several calls."),
	}
}

// settle checks the choice against the tools.
func (b *toolbox) settle() error {
	param := "tool_choice"
	if b.choice.old {
		param = "function_call"
	}
	switch {
	case b.tools.twice:
		return reply.Invalid("functions", "given together with tools, want one of them")
	case b.choice.twice:
		return reply.Invalid("function_call", "given together with tool_choice, want one of them")
	case len(b.tools.list) == 0 && (b.choice.mode == "required" || b.choice.names != nil):
		return reply.Invalid(param, "given without tools, want some in tools")
	}
	for _, name := range b.choice.names {
		if !b.tools.has(name) {
			return reply.Invalid(param, "no tool has the name %s", field.Quote(name))
		}
	}
	return nil
}

// shown returns the tools that the template is given.
func (b *toolbox) shown() []stdjson.RawMessage {
	if b.choice.mode == "none" {
		return nil
	}
	var all []stdjson.RawMessage
	for _, t := range b.tools.list {
		all = append(all, t.raw)
	}
	return all
}

// rule returns which calls the answer may have, nil where there are none.
func (b *toolbox) rule() *chat.CallRule {
	if len(b.tools.list) == 0 || b.choice.mode == "none" {
		return nil
	}
	var strict []string
	inputs := map[string]*grammar.Grammar{}
	for _, t := range b.tools.list {
		if t.input != nil {
			inputs[t.Name] = t.input
		}
		if t.Strict {
			strict = append(strict, t.Name)
		}
	}
	return &chat.CallRule{Strict: strict, Required: b.choice.mode == "required", Single: !b.parallel || b.tools.old, Names: b.choice.names, Inputs: inputs}
}
