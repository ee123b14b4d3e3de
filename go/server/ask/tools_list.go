package ask

import (
	stdjson "encoding/json" // for the type of chat's values
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Tool is a function that the model may call.
type Tool struct {
	chat.Tool
	raw    stdjson.RawMessage // as the template is given it
	custom bool               // its only argument is a text, its input
	input  *CustomFormat      // the grammar of that; nil: any text
}

// Tools is a list of them.
type Tools struct {
	list       []Tool
	Old        bool // they came as functions
	new, twice bool
}

// MaxTools bounds what a template has to render.
const MaxTools = 1024

const wantTools = `an array of tools such as {"type": "function", "function": {"name": "get_time"}}`

func (l *Tools) Take(r *field.Reader) error {
	l.twice, l.new = l.Old, true
	return l.Read(r, wantTools, readTool)
}

func (l *Tools) Read(r *field.Reader, want string, one func(r *field.Reader) (Tool, error)) error {
	l.list = []Tool{}
	return r.Elements(want, func(i int) error {
		t, err := one(r)
		if err == nil {
			err = l.Add(t)
		}
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

func (l *Tools) Add(t Tool) error {
	switch {
	case l.has(t.Name):
		return fmt.Errorf("a second tool with the name %s", field.Quote(t.Name))
	case len(l.list) == MaxTools:
		return fmt.Errorf("more than %d tools", MaxTools)
	}
	l.list = append(l.list, t)
	return nil
}

func (l *Tools) has(name string) bool {
	for _, t := range l.list {
		if t.Name == name {
			return true
		}
	}
	return false
}

// readTool reads a tool of a list.
func readTool(r *field.Reader) (t Tool, err error) {
	kind, function, custom := "", false, false
	err = r.Members("an object", func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.Text("function or custom")
		case "function":
			function = true
			t, err = readFunction(r)
		case "custom":
			custom = true
			t, err = readCustom(r)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return t, err
	case kind != "" && kind != "function" && kind != "custom":
		return t, fmt.Errorf("type: the server has no tools of the type %s, want function or custom", field.Quote(kind))
	case function && custom:
		return t, fmt.Errorf("function and custom in one tool, want one of them")
	case kind == "custom" && !custom:
		return t, fmt.Errorf("custom: missing, want an object with the name of one")
	case kind != "custom" && !function:
		return t, fmt.Errorf("function: missing, want an object with the name of one")
	}
	return t, nil
}

// readFunction reads the definition of a function. What the template is given has no
// member that only the server heeds, and parameters in any case.
func readFunction(r *field.Reader) (t Tool, err error) {
	var members []string
	err = r.Members("an object with a name", func(name string) error {
		var err error
		var v jsontext.Value
		switch name {
		case "name":
			if t.Name, err = r.Text("a string"); err == nil {
				err = chat.CheckToolName(t.Name)
			}
			v, _ = jsontext.AppendQuote(nil, t.Name)
		case "parameters":
			if k := r.Kind(); k != '{' && k != 'n' {
				return field.Within(name, r.Wrong("a JSON schema, which is an object"))
			}
			if v, err = r.Raw(); v.Kind() == 'n' {
				return err
			}
			t.Parameters = stdjson.RawMessage(v)
		case "strict":
			if r.Kind() == 'n' {
				_, err = r.Raw()
				return err
			}
			return field.Within(name, field.Boolean(&t.Strict).Take(r))
		default:
			v, err = r.Raw()
		}
		members = append(members, quoteJSON(name)+": "+string(v))
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return t, err
	case t.Name == "":
		return t, fmt.Errorf("name: missing, want a string")
	case t.Parameters == nil:
		members = append(members, `"parameters": {"type": "object", "properties": {}}`)
	}
	t.raw = stdjson.RawMessage(`{"type": "function", "function": {` + strings.Join(members, ", ") + `}}`)
	return t, nil
}

func quoteJSON(s string) string {
	b, _ := jsontext.AppendQuote(nil, s) // fails for no text of a body
	return string(b)
}

func (l *Tools) Value() any { return nil }

func (l *Tools) Schema() field.Schema {
	return field.Schema{"type": "array", "maxItems": MaxTools, "items": field.Schema{
		"type": "object", "anyOf": []field.Schema{{"required": []string{"function"}},
			{"required": []string{"type", "custom"}}},
		"properties": field.Schema{"type": field.Schema{"type": "string"}, "function": functionSchema(),
			"custom": customSchema()},
	}}
}

func functionSchema() field.Schema {
	return field.Schema{"type": "object", "required": []string{"name"}, "properties": field.Schema{
		"name":        field.Schema{"type": "string", "minLength": 1, "maxLength": chat.MaxToolName},
		"description": field.Schema{}, "parameters": field.Schema{"type": []string{"object", "null"}},
		"strict": field.Schema{"type": []string{"boolean", "null"}},
	}}
}

// bareTools is the field functions, OpenAI's older form of tools.
type bareTools struct{ to *Tools }

func (b bareTools) Take(r *field.Reader) error {
	b.to.twice, b.to.Old = b.to.new, true
	return b.to.Read(r, `an array of functions such as {"name": "get_time"}`, readFunction)
}

func (b bareTools) Value() any { return nil }

func (b bareTools) Schema() field.Schema {
	return field.Schema{"type": "array", "maxItems": MaxTools, "items": functionSchema()}
}

// NewTool returns a function that the model may call.
func NewTool(name, description string, parameters jsontext.Value, strict bool) (Tool, error) {
	v, err := reply.Encode(struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitzero"`
		Parameters  jsontext.Value `json:"parameters,omitzero"`
		Strict      bool           `json:"strict,omitzero"`
	}{name, description, parameters, strict})
	if err != nil {
		return Tool{}, err
	}
	return readFunction(field.NewReader(v))
}
