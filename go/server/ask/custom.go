package ask

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A custom tool is one of OpenAI's whose input is a text. The model is given a function with
// that text as its only argument.

// A CustomFormat is what the input of a custom tool may be: any text, or one of a grammar.
type CustomFormat struct {
	Type       string `json:"type"`
	Syntax     string `json:"syntax"`
	Definition string `json:"definition"`
}

// NewCustomTool returns the function that the model is given.
func NewCustomTool(name, description string, f CustomFormat) (Tool, error) {
	switch f.Type {
	case "", "text":
	case "grammar":
		description += fmt.Sprintf("\n\nThe input is of this language (%s):\n%s", f.Syntax, f.Definition)
	default:
		return Tool{}, reply.Bad("format: type: the string %s, want text or grammar", field.Quote(f.Type))
	}
	t, err := NewTool(name, description, customParameters, false)
	if t.custom = true; f.Type == "grammar" {
		t.input = &f
	}
	return t, err
}

var customParameters = jsontext.Value(`{"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": false}`)

// CustomArguments returns the arguments of a call of a custom tool, as the model writes
// them.
func CustomArguments(input string) string {
	b, err := reply.Encode(map[string]string{"input": input})
	if err != nil {
		return "{}"
	}
	return string(b)
}

// readCustom reads the definition of a custom tool in a chat.
func readCustom(r *field.Reader) (Tool, error) {
	var in struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Format      struct {
			Type    string       `json:"type"`
			Grammar CustomFormat `json:"grammar"`
		} `json:"format"`
	}
	if r.Kind() != '{' {
		return Tool{}, r.Wrong("an object with a name")
	}
	if err := r.Decode(&in); err != nil {
		return Tool{}, err
	}
	if in.Name == "" {
		return Tool{}, fmt.Errorf("name: missing, want a string")
	}
	in.Format.Grammar.Type = in.Format.Type
	return NewCustomTool(in.Name, in.Description, in.Format.Grammar)
}

// A CustomCall is a call of a custom tool in a chat.
type CustomCall struct {
	Name  string `json:"name,omitempty"`
	Input string `json:"input"`
}

// A ChatCall is a call of a tool in a chat, of a function or of a custom tool.
type ChatCall struct {
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type"`
	Function *chat.Function `json:"function,omitempty"`
	Custom   *CustomCall    `json:"custom,omitempty"`
}

// toChat returns the call as the model writes it.
func (c ChatCall) toChat() (chat.ToolCall, error) {
	out := chat.ToolCall{ID: c.ID, Type: c.Type}
	switch {
	case c.Type == "custom" && c.Custom == nil:
		return out, reply.Bad("custom: missing, want an object with name and input")
	case c.Type == "custom":
		out.Type = "function"
		out.Function = chat.Function{Name: c.Custom.Name, Arguments: chat.Arguments(CustomArguments(c.Custom.Input))}
	case c.Function != nil:
		out.Function = *c.Function
	}
	return out, nil
}

// Custom reports whether a tool is a custom one.
func (l *Tools) Custom(name string) bool {
	for _, t := range l.list {
		if t.Name == name {
			return t.custom
		}
	}
	return false
}

func customSchema() field.Schema {
	return field.Schema{"type": "object", "required": []string{"name"}, "properties": field.Schema{
		"name":        field.Schema{"type": "string", "minLength": 1, "maxLength": chat.MaxToolName},
		"description": field.Schema{"type": "string"},
		"format": field.Schema{"type": "object", "properties": field.Schema{
			"type": field.Schema{"enum": []string{"text", "grammar"}},
			"grammar": field.Schema{"type": "object", "properties": field.Schema{
				"syntax": field.Schema{"enum": []string{"lark", "regex"}}, "definition": field.Schema{"type": "string"},
			}},
		}},
	}}
}
