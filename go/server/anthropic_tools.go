package server

import (
	stdjson "encoding/json" // for the type of chat's values
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A functionTool is a tool as chat templates have it.
type functionTool struct {
	Type     string       `json:"type"`
	Function functionSpec `json:"function"`
}

type functionSpec struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters,omitzero"`
	Strict      bool           `json:"strict,omitzero"`
}

// raw returns the tool's JSON.
func (f functionSpec) raw() (stdjson.RawMessage, error) {
	b, err := encode(functionTool{"function", f})
	return stdjson.RawMessage(b), err
}

// anthropicTools are tools as Anthropic's clients send them.
type anthropicTools []stdjson.RawMessage

func (l *anthropicTools) take(r *reader) error {
	*l = anthropicTools{}
	return r.elements("an array of tools", func(i int) error {
		tool, err := readAnthropicTool(r)
		*l = append(*l, tool)
		return wrap(fmt.Sprintf("tool %d", i), err)
	})
}

func readAnthropicTool(r *reader) (stdjson.RawMessage, error) {
	var t struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Strict      bool           `json:"strict"`
		Schema      jsontext.Value `json:"input_schema"`
	}
	if err := mismatch(r.decode(&t)); err != nil {
		return nil, err
	}
	switch {
	case t.Type != "" && t.Type != "custom" && t.Schema == nil:
		return nil, bad("type: %s is a tool that Anthropic defines or runs, want one with an input_schema", quote(t.Type))
	case strings.TrimSpace(t.Name) == "":
		return nil, bad("name: missing, want a string")
	case t.Schema == nil:
		return nil, bad("input_schema: missing, want an object")
	case t.Schema.Kind() != '{':
		return nil, bad("input_schema: %s, want an object", describe(t.Schema))
	}
	return functionSpec{t.Name, t.Description, t.Schema, t.Strict}.raw()
}

func (l *anthropicTools) value() any { return nil }

func (l *anthropicTools) schema() schema {
	return schema{"type": "array", "items": schema{"type": "object", "required": []string{"name"}, "properties": schema{
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
			err = text{&c.kind, []string{"auto", "any", "tool", "none"}}.take(r)
		case name == "name":
			c.name, err = r.text("a string")
		case name == "disable_parallel_tool_use":
			err = boolean{&c.single}.take(r)
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	switch {
	case err != nil:
		return err
	case c.kind == "":
		return bad("type: missing, want auto, any, tool or none")
	case c.kind == "tool" && c.name == "":
		return bad("name: missing, want a tool's")
	}
	return nil
}

func (c *anthropicChoice) value() any { return nil }

func (c *anthropicChoice) schema() schema {
	return schema{"type": "object", "required": []string{"type"}, "properties": schema{
		"type": schema{"enum": []string{"auto", "any", "tool", "none"}}, "name": schema{"type": []string{"string", "null"}},
		"disable_parallel_tool_use": schema{"type": []string{"boolean", "null"}},
	}}
}
