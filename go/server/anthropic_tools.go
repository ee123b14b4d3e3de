package server

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/reply"
)

// anthropicTools are tools as Anthropic's clients send them.
type anthropicTools struct{ to *tools }

func (l anthropicTools) take(r *reader) error {
	return l.to.read(r, `an array of tools such as {"name": "get_time", "input_schema": {"type": "object"}}`, readAnthropicTool)
}

func readAnthropicTool(r *reader) (tool, error) {
	var t struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Strict      bool           `json:"strict"`
		Schema      jsontext.Value `json:"input_schema"`
	}
	if err := r.decode(&t); err != nil {
		return tool{}, err
	}
	switch {
	case t.Type != "" && t.Type != "custom" && t.Schema == nil:
		return tool{}, reply.Bad("type: %s is a tool that Anthropic defines or runs, want one with an input_schema", quote(t.Type))
	case t.Name == "":
		return tool{}, reply.Bad("name: missing, want a string")
	case t.Schema == nil:
		return tool{}, reply.Bad("input_schema: missing, want an object")
	case t.Schema.Kind() != '{':
		return tool{}, reply.Bad("input_schema: %s, want an object", describe(t.Schema))
	}
	return newTool(t.Name, t.Description, t.Schema, t.Strict)
}

// newTool returns a function that the model may call.
func newTool(name, description string, parameters jsontext.Value, strict bool) (tool, error) {
	v, err := reply.Encode(struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitzero"`
		Parameters  jsontext.Value `json:"parameters,omitzero"`
		Strict      bool           `json:"strict,omitzero"`
	}{name, description, parameters, strict})
	if err != nil {
		return tool{}, err
	}
	return readFunction(newReader(v))
}

func (l anthropicTools) value() any { return nil }

func (l anthropicTools) schema() schema {
	return schema{"type": "array", "maxItems": maxTools, "items": schema{"type": "object", "required": []string{"name"}, "properties": schema{
		"name": schema{"type": "string"}, "description": schema{"type": []string{"string", "null"}}, "input_schema": schema{"type": "object"},
	}}}
}

// anthropicChoice is tool_choice.
type anthropicChoice struct {
	kind, name string
	single     bool // disable_parallel_tool_use
}

func (c *anthropicChoice) take(r *reader) error {
	err := r.members("an object", func(name string) error {
		var err error
		switch {
		case r.kind() == 'n':
			_, err = r.raw()
		case name == "type":
			err = oneOf(&c.kind, "auto", "any", "tool", "none").take(r)
		case name == "name":
			c.name, err = r.text("a string")
		case name == "disable_parallel_tool_use":
			err = newBoolean(&c.single).take(r)
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
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
func (c *anthropicChoice) apply(b *toolbox) {
	b.parallel = !c.single
	switch c.kind {
	case "any":
		b.choice.mode = "required"
	case "tool":
		b.choice.mode, b.choice.names = "required", []string{c.name}
	case "none":
		b.choice.mode = "none"
	}
}

func (c *anthropicChoice) value() any { return nil }

func (c *anthropicChoice) schema() schema {
	return schema{"type": "object", "required": []string{"type"}, "properties": schema{
		"type": schema{"enum": []string{"auto", "any", "tool", "none"}}, "name": schema{"type": []string{"string", "null"}},
		"disable_parallel_tool_use": schema{"type": []string{"boolean", "null"}},
	}}
}
