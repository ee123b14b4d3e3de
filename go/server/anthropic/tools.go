package anthropic

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// tools are tools as Anthropic's clients send them: those that clients run, and those that the server calls.
type tools struct {
	to     *ask.Tools
	served *offers
}

const wantTools = `an array of tools such as {"name": "get_time", "input_schema": {"type": "object"}}`

func (l tools) Take(r *field.Reader) error {
	*l.to = ask.Tools{}
	l.served.served, l.served.sets = nil, nil
	return r.Elements(wantTools, func(i int) error {
		v, err := r.Raw()
		if err == nil {
			err = l.add(v)
		}
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

func (l tools) add(v jsontext.Value) error {
	var t struct {
		Type        string         `json:"type"`
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Strict      bool           `json:"strict"`
		Schema      jsontext.Value `json:"input_schema"`
	}
	if v.Kind() != '{' {
		return field.Wrong(v, "an object")
	}
	if err := field.Decode(v, &t); err != nil {
		return err
	}
	switch {
	case t.Schema != nil:
	case searchType.MatchString(t.Type), readType.MatchString(t.Type):
		return l.served.addWeb(l.to, searchType.MatchString(t.Type), v)
	case t.Type == toolsetType:
		return l.served.addSet(v)
	}
	switch {
	case t.Type != "" && t.Type != "custom" && t.Schema == nil:
		return reply.Bad("type: %s is a tool that Anthropic defines or runs, want one with an input_schema, or of the web or MCP servers",
			field.Quote(t.Type))
	case t.Name == "":
		return reply.Bad("name: missing, want a string")
	case t.Schema == nil:
		return reply.Bad("input_schema: missing, want an object")
	case t.Schema.Kind() != '{':
		return reply.Bad("input_schema: %s, want an object", field.Describe(t.Schema))
	}
	tool, err := ask.NewTool(t.Name, t.Description, t.Schema, t.Strict)
	if err == nil {
		err = l.to.Add(tool)
	}
	return err
}

func (l tools) Value() any { return nil }

func (l tools) Schema() field.Schema {
	return field.Schema{"type": "array", "maxItems": ask.MaxTools,
		"items": field.Schema{"type": "object", "properties": field.Schema{
			"type": field.Schema{"type": []string{"string", "null"}},
			"name": field.Schema{"type": "string"}, "description": field.Schema{"type": []string{"string", "null"}},
			"input_schema": field.Schema{"type": "object"},
		}}}
}

// Ids of calls begin with toolu_ for Anthropic's clients, and with other names where the server makes them. The rest is the
// model's own, or what follows call_ in an id that was made for it; templates get the id as it was.
const (
	callPrefix   = "toolu_"
	webPrefix    = "srvtoolu_"
	remotePrefix = "mcptoolu_"
	openAICall   = "call_"
)

func newID(id string) string { return idWith(callPrefix, id) }

func idWith(prefix, id string) string { return prefix + strings.TrimPrefix(id, openAICall) }

// modelID is the id that newID was given.
func modelID(id string) string {
	for _, prefix := range []string{callPrefix, webPrefix, remotePrefix} {
		own, ok := strings.CutPrefix(id, prefix)
		switch {
		case !ok || own == "":
			continue
		case len(own) == 24: // the letters that follow call_
			return openAICall + own
		}
		return own
	}
	return id
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
