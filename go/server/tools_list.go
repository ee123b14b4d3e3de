package server

import (
	stdjson "encoding/json" // for the type of chat's values
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/grammar"
)

// A tool is a function that the model may call.
type tool struct {
	chat.Tool
	raw    stdjson.RawMessage // as the template is given it
	custom bool               // its only argument is a text, its input
	input  *grammar.Grammar   // what that may be; nil: any text
}

// tools is a list of them.
type tools struct {
	list       []tool
	old        bool // they came as functions
	new, twice bool
}

// maxTools bounds what a template has to render.
const maxTools = 1024

const wantTools = `an array of tools such as {"type": "function", "function": {"name": "get_time"}}`

func (l *tools) take(r *reader) error {
	l.twice, l.new = l.old, true
	return l.read(r, wantTools, readTool)
}

func (l *tools) read(r *reader, want string, one func(r *reader) (tool, error)) error {
	l.list = []tool{}
	return r.elements(want, func(i int) error {
		t, err := one(r)
		if err == nil {
			err = l.add(t)
		}
		return wrap(fmt.Sprintf("element %d", i), err)
	})
}

func (l *tools) add(t tool) error {
	switch {
	case l.has(t.Name):
		return fmt.Errorf("a second tool with the name %s", quote(t.Name))
	case len(l.list) == maxTools:
		return fmt.Errorf("more than %d tools", maxTools)
	}
	l.list = append(l.list, t)
	return nil
}

func (l *tools) has(name string) bool {
	for _, t := range l.list {
		if t.Name == name {
			return true
		}
	}
	return false
}

// readTool reads a tool of a list.
func readTool(r *reader) (t tool, err error) {
	kind, function, custom := "", false, false
	err = r.members("an object", func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.text("function or custom")
		case "function":
			function = true
			t, err = readFunction(r)
		case "custom":
			custom = true
			t, err = readCustom(r)
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	switch {
	case err != nil:
		return t, err
	case kind != "" && kind != "function" && kind != "custom":
		return t, fmt.Errorf("type: the server has no tools of the type %s, want function or custom", quote(kind))
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
func readFunction(r *reader) (t tool, err error) {
	var members []string
	err = r.members("an object with a name", func(name string) error {
		var err error
		var v jsontext.Value
		switch name {
		case "name":
			if t.Name, err = r.text("a string"); err == nil {
				err = goodName(t.Name)
			}
			v, _ = jsontext.AppendQuote(nil, t.Name)
		case "parameters":
			if k := r.kind(); k != '{' && k != 'n' {
				return wrap(name, r.wrong("a JSON schema, which is an object"))
			}
			if v, err = r.raw(); v.Kind() == 'n' {
				return err
			}
			t.Parameters = stdjson.RawMessage(v)
		case "strict":
			if r.kind() == 'n' {
				_, err = r.raw()
				return err
			}
			return wrap(name, newBoolean(&t.Strict).take(r))
		default:
			v, err = r.raw()
		}
		members = append(members, quoteJSON(name)+": "+string(v))
		return wrap(name, err)
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

// maxToolName is the maximum length of a name.
const maxToolName = 128

// goodName checks that any format can write the name.
func goodName(name string) error {
	ok := name != "" && len(name) <= maxToolName
	for _, c := range name {
		ok = ok && (c == '_' || c == '-' || c == '.' || c == ':' || c == '/' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if !ok {
		return fmt.Errorf("the string %s, want 1 to %d of the characters a-z A-Z 0-9 _ - . : /", quote(name), maxToolName)
	}
	return nil
}

func (l *tools) value() any { return nil }

func (l *tools) schema() schema {
	return schema{"type": "array", "maxItems": maxTools, "items": schema{
		"type": "object", "anyOf": []schema{{"required": []string{"function"}}, {"required": []string{"type", "custom"}}},
		"properties": schema{"type": schema{"type": "string"}, "function": functionSchema(), "custom": customSchema()},
	}}
}

func functionSchema() schema {
	return schema{"type": "object", "required": []string{"name"}, "properties": schema{
		"name":        schema{"type": "string", "minLength": 1, "maxLength": maxToolName},
		"description": schema{}, "parameters": schema{"type": []string{"object", "null"}},
		"strict": schema{"type": []string{"boolean", "null"}},
	}}
}

// bareTools is the field functions, OpenAI's older form of tools.
type bareTools struct{ to *tools }

func (b bareTools) take(r *reader) error {
	b.to.twice, b.to.old = b.to.new, true
	return b.to.read(r, `an array of functions such as {"name": "get_time"}`, readFunction)
}

func (b bareTools) value() any { return nil }

func (b bareTools) schema() schema {
	return schema{"type": "array", "maxItems": maxTools, "items": functionSchema()}
}
