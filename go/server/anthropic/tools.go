package anthropic

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// tools are tools as Anthropic's clients send them.
type tools struct{ to *ask.Tools }

func (l tools) Take(r *field.Reader) error {
	return l.to.Read(r, `an array of tools such as {"name": "get_time", "input_schema": {"type": "object"}}`, readTool)
}

func readTool(r *field.Reader) (ask.Tool, error) {
	var t struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Strict      bool           `json:"strict"`
		Schema      jsontext.Value `json:"input_schema"`
	}
	if err := r.Decode(&t); err != nil {
		return ask.Tool{}, err
	}
	switch {
	case t.Type != "" && t.Type != "custom" && t.Schema == nil:
		return ask.Tool{}, reply.Bad("type: %s is a tool that Anthropic defines or runs, want one with an input_schema",
			field.Quote(t.Type))
	case t.Name == "":
		return ask.Tool{}, reply.Bad("name: missing, want a string")
	case t.Schema == nil:
		return ask.Tool{}, reply.Bad("input_schema: missing, want an object")
	case t.Schema.Kind() != '{':
		return ask.Tool{}, reply.Bad("input_schema: %s, want an object", field.Describe(t.Schema))
	}
	return ask.NewTool(t.Name, t.Description, t.Schema, t.Strict)
}

func (l tools) Value() any { return nil }

func (l tools) Schema() field.Schema {
	return field.Schema{"type": "array", "maxItems": ask.MaxTools,
		"items": field.Schema{"type": "object", "required": []string{"name"}, "properties": field.Schema{
			"name": field.Schema{"type": "string"}, "description": field.Schema{"type": []string{"string", "null"}},
			"input_schema": field.Schema{"type": "object"},
		}}}
}

// Ids of calls begin with toolu_ for Anthropic's clients. The rest is the model's own, or what follows call_ in an id
// that was made for it; templates get the id as it was.
const (
	callPrefix = "toolu_"
	openAICall = "call_"
)

func newID(id string) string { return callPrefix + strings.TrimPrefix(id, openAICall) }

// modelID is the id that newID was given.
func modelID(id string) string {
	own, ok := strings.CutPrefix(id, callPrefix)
	switch {
	case !ok || own == "":
		return id
	case len(own) == 24: // the letters that follow call_
		return openAICall + own
	}
	return own
}

// choice is tool_choice.
type choice struct {
	kind, name string
	single     bool // disable_parallel_tool_use
}

func (c *choice) Take(r *field.Reader) error {
	err := r.Members("an object", func(name string) error {
		var err error
		switch {
		case r.Kind() == 'n':
			_, err = r.Raw()
		case name == "type":
			err = field.OneOf(&c.kind, "auto", "any", "tool", "none").Take(r)
		case name == "name":
			c.name, err = r.Text("a string")
		case name == "disable_parallel_tool_use":
			err = field.Boolean(&c.single).Take(r)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return err
	case c.kind == "":
		return reply.Bad("type: missing, want auto, any, tool or none")
	case c.kind == "tool" && c.name == "":
		return reply.Bad("name: missing, want a tool's")
	}
	return nil
}

// apply tells the choice to the tools of a conversation.
func (c *choice) apply(b *ask.Toolbox) {
	b.Parallel = !c.single
	switch c.kind {
	case "any":
		b.Choice.Mode = "required"
	case "tool":
		b.Choice.Mode, b.Choice.Names = "required", []string{c.name}
	case "none":
		b.Choice.Mode = "none"
	}
}

func (c *choice) Value() any { return nil }

func (c *choice) Schema() field.Schema {
	return field.Schema{"type": "object", "required": []string{"type"}, "properties": field.Schema{
		"type":                      field.Schema{"enum": []string{"auto", "any", "tool", "none"}},
		"name":                      field.Schema{"type": []string{"string", "null"}},
		"disable_parallel_tool_use": field.Schema{"type": []string{"boolean", "null"}},
	}}
}
