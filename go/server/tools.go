package server

import (
	stdjson "encoding/json" // for the type of chat's values
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/grammar"
)

// toolbox holds the fields of a chat that say which tools the model may call.
type toolbox struct {
	tools    tools
	choice   toolChoice
	parallel bool
}

func newToolbox() toolbox { return toolbox{parallel: true} }

func (b *toolbox) fields() []field {
	return []field{
		input("tools", &b.tools, `Functions that the model may call, such as {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}, and custom tools, whose input is a text: {"type": "custom", "custom": {"name": "patch"}}, any text or, with a format, one of a grammar.`),
		input("functions", bareTools{&b.tools}, "The older form of tools, without the object around each. Answers then have function_call in place of tool_calls."),
		input("tool_choice", &b.choice, `Which of them: none, auto, required, {"type": "function", "function": {"name": "get_time"}}, {"type": "custom", "custom": {"name": "patch"}}, or allowed_tools with some of them.`),
		input("function_call", oldChoice{&b.choice}, `The older form of tool_choice: none, auto or {"name": "get_time"}.`),
		setting("parallel_tool_calls", boolean{&b.parallel}, "Whether one answer may have several calls."),
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
		return invalid("functions", "given together with tools, want one of them")
	case b.choice.twice:
		return invalid("function_call", "given together with tool_choice, want one of them")
	case len(b.tools.list) == 0 && (b.choice.mode == "required" || b.choice.names != nil):
		return invalid(param, "given without tools, want some in tools")
	}
	for _, name := range b.choice.names {
		if !b.tools.has(name) {
			return invalid(param, "no tool has the name %s", quote(name))
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
			return wrap(name, boolean{&t.Strict}.take(r))
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

// A toolChoice is which tools the model may call, and whether it must.
type toolChoice struct {
	mode       string   // none, required, or auto, which "" is too
	names      []string // nil: any
	old        bool     // it came as function_call
	new, twice bool
}

const wantChoice = `none, auto, required or {"type": "function", "function": {"name": "get_time"}}`

func (c *toolChoice) take(r *reader) error {
	c.twice, c.new = c.old, true
	c.mode, c.names = "", nil
	if r.kind() == '"' {
		return text{&c.mode, []string{"none", "auto", "required"}}.take(r)
	}
	return c.object(r, "")
}

// object reads a choice that is an object: one function, or those that are allowed.
func (c *toolChoice) object(r *reader, kind string) error {
	one, mode := "", ""
	var some []string
	listed := false
	list := func() error {
		listed = true
		return r.elements("an array of tools", func(i int) error {
			name, err := readChosen(r)
			some = append(some, name)
			return wrap(fmt.Sprintf("element %d", i), err)
		})
	}
	err := r.members(wantChoice, func(name string) error {
		var err error
		switch name {
		case "type":
			kind, err = r.text("function, custom or allowed_tools")
		case "function", "custom":
			one, err = readNamed(r)
		case "name":
			one, err = r.text("a string")
		case "mode":
			err = text{&mode, []string{"auto", "required"}}.take(r)
		case "tools":
			err = list()
		case "allowed_tools":
			err = r.members("an object", func(name string) error {
				switch name {
				case "mode":
					return wrap(name, text{&mode, []string{"auto", "required"}}.take(r))
				case "tools":
					return wrap(name, list())
				}
				_, err := r.raw()
				return err
			})
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	switch {
	case err != nil:
		return err
	case kind == "allowed_tools" && listed && len(some) > 0:
		c.mode, c.names = mode, some
	case kind == "allowed_tools":
		return fmt.Errorf("tools: missing or empty, want those that are allowed")
	case kind != "" && kind != "function" && kind != "custom":
		return fmt.Errorf("type: the string %s, want function, custom or allowed_tools", quote(kind))
	case one == "":
		return fmt.Errorf("an object without the name of a function, want %s", wantChoice)
	default:
		c.mode, c.names = "required", []string{one}
	}
	return nil
}

// readChosen reads one of the tools that are allowed.
func readChosen(r *reader) (one string, err error) {
	err = r.members("an object", func(name string) error {
		var err error
		switch name {
		case "function", "custom":
			one, err = readNamed(r)
		case "name":
			one, err = r.text("a string")
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	if err == nil && one == "" {
		err = fmt.Errorf("no name, want that of a function")
	}
	return one, err
}

// readNamed reads an object that has a name.
func readNamed(r *reader) (one string, err error) {
	err = r.members("an object with a name", func(name string) (err error) {
		if name == "name" {
			one, err = r.text("a string")
		} else {
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	return one, err
}

func (c *toolChoice) value() any { return nil }

func (c *toolChoice) schema() schema {
	return schema{"description": wantChoice, "anyOf": []schema{
		{"type": "string", "enum": []string{"none", "auto", "required"}}, {"type": "object"},
	}}
}

// oldChoice is the field function_call.
type oldChoice struct{ to *toolChoice }

func (c oldChoice) take(r *reader) error {
	c.to.twice, c.to.old = c.to.new, true
	c.to.mode, c.to.names = "", nil
	if r.kind() == '"' {
		return text{&c.to.mode, []string{"none", "auto"}}.take(r)
	}
	one, err := readNamed(r)
	if err == nil && one == "" {
		err = fmt.Errorf(`an object without a name, want none, auto or {"name": "get_time"}`)
	}
	c.to.mode, c.to.names = "required", []string{one}
	return err
}

func (c oldChoice) value() any { return nil }

func (c oldChoice) schema() schema {
	return schema{"anyOf": []schema{{"type": "string", "enum": []string{"none", "auto"}}, {"type": "object"}}}
}
