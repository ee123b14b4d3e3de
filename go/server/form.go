package server

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/server/reply"
)

// held is the form that an answer is held to. Several fields give one, of which a request
// may have one.
type held struct {
	form.Form
	param string // the field that gave it; empty: none did
	usual bool   // it is the server's default, which a request's replaces
	lazy  lazy

	constraint constrain.Constraint // set by settle; each answer gets a fork
}

// give sets the form to what a field has.
func (f *held) give(param string, kind form.Kind, text string) error {
	if f.param != "" && !f.usual {
		return fmt.Errorf("given together with %s, want one of them", f.param)
	}
	*f = held{Form: form.Form{Kind: kind, Text: text, Space: f.Space, Compact: f.Compact}, param: param, lazy: f.lazy}
	return nil
}

// anyObject is the schema of a JSON object.
const anyObject = `{"type":"object"}`

func (f *held) fields() []field {
	return append(f.lazy.fields(), []field{
		setting("grammar", formText{f, "grammar", form.Grammar, "a grammar"}, "Holds the answer to a grammar, in GBNF or Lark."),
		input("json_schema", formSchema{f, "json_schema", false}, "Holds the answer to a JSON schema."),
		input("guided_json", formSchema{f, "guided_json", true}, "The same as json_schema; it may be a string of JSON too."),
		input("guided_regex", formText{f, "guided_regex", form.Regex, "a regular expression"}, "The whole answer matches this regular expression."),
		input("guided_choice", formChoice{f, "guided_choice"}, "The answer is one of these texts, unless max_tokens ends it before."),
		input("guided_grammar", formText{f, "guided_grammar", form.Grammar, "a grammar"}, "The same as grammar."),
		input("guided_whitespace_pattern", newText(&f.Space), "A regular expression of the white space between the parts of JSON."),
		input("structured_outputs", structured{f}, "One of choice, regex, json, json_object, grammar and structural_tag, as the fields with guided_ have them."),
	}...)
}

// formText is a field with the text of a form.
type formText struct {
	f     *held
	param string
	kind  form.Kind
	what  string
}

func (t formText) take(r *reader) error {
	s, err := r.text(t.what)
	if err != nil || s == "" {
		return err
	}
	return t.f.give(t.param, t.kind, s)
}

func (t formText) value() any {
	if t.f.param == t.param {
		return t.f.Text
	}
	return ""
}

func (t formText) schema() schema { return schema{"type": "string"} }

// formSchema is a field with a JSON schema.
type formSchema struct {
	f      *held
	param  string
	quoted bool // it may be a string of JSON
}

func (s formSchema) take(r *reader) error {
	text := ""
	switch k := r.kind(); {
	case k == '"' && s.quoted:
		var err error
		if text, err = r.text("a JSON schema"); err != nil {
			return err
		}
	case k != '{' && k != 't' && k != 'f':
		return r.wrong("a JSON schema")
	default:
		v, err := r.raw()
		if err != nil {
			return err
		}
		text = string(v)
	}
	return s.f.give(s.param, form.Schema, text)
}

func (s formSchema) value() any { return nil }

func (s formSchema) schema() schema {
	types := []string{"object", "boolean"}
	if s.quoted {
		types = append(types, "string")
	}
	return schema{"type": types, "description": "a JSON schema"}
}

// formChoice is a field with texts of which the answer is one.
type formChoice struct {
	f     *held
	param string
}

// Bounds of a list of choices.
const (
	maxChoices     = 1 << 16
	maxChoiceBytes = 1 << 20 // of all together
)

func (c formChoice) take(r *reader) error {
	var list texts
	if err := list.take(r); err != nil {
		return err
	}
	if len(list) == 0 || len(list) > maxChoices {
		return fmt.Errorf("%d choices, want 1 to %d", len(list), maxChoices)
	}
	total := 0
	for _, t := range list {
		if total += len(t); t == "" {
			return errors.New("a choice is empty, want a text")
		}
	}
	if total > maxChoiceBytes {
		return fmt.Errorf("the choices have %d bytes, want at most %d", total, maxChoiceBytes)
	}
	err := c.f.give(c.param, form.Choice, "")
	c.f.Choices = list
	return err
}

func (c formChoice) value() any { return []string{} }

func (c formChoice) schema() schema {
	return schema{"type": "array", "items": schema{"type": "string"}, "minItems": 1, "maxItems": maxChoices}
}

// structured is the object in which vLLM's clients send a form.
type structured struct{ f *held }

func (s structured) take(r *reader) error {
	return r.members("an object", func(name string) error {
		if r.kind() == 'n' {
			_, err := r.raw()
			return err
		}
		const param = "structured_outputs"
		var to target
		is := false
		switch name {
		case "choice":
			to = formChoice{s.f, param}
		case "regex":
			to = formText{s.f, param, form.Regex, "a regular expression"}
		case "grammar":
			to = formText{s.f, param, form.Grammar, "a grammar"}
		case "json":
			to = formSchema{s.f, param, true}
		case "structural_tag":
			to = formTags{s.f, param}
		case "whitespace_pattern":
			to = newText(&s.f.Space)
		case "json_object", "disable_any_whitespace", "disable_fallback", "disable_additional_properties":
			to = newBoolean(&is)
		default:
			return fmt.Errorf("%s is no form, want one of choice, regex, json, json_object, grammar, structural_tag", quote(name))
		}
		err := to.take(r)
		switch {
		case err != nil || !is:
		case name == "json_object":
			err = s.f.give(param, form.Schema, anyObject)
		case name == "disable_any_whitespace":
			s.f.Compact = true
		case name == "disable_additional_properties":
			err = errors.New("true is not supported, want additionalProperties in the schema")
		}
		return wrap(name, err)
	})
}

func (s structured) value() any { return map[string]any{} }

func (s structured) schema() schema {
	null := func(sub schema) schema { return schema{"anyOf": []schema{sub, {"type": "null"}}} }
	return schema{"type": "object", "properties": schema{
		"choice": null(formChoice{}.schema()), "regex": null(schema{"type": "string"}), "grammar": null(schema{"type": "string"}),
		"json": null(formSchema{quoted: true}.schema()), "json_object": null(schema{"type": "boolean"}), "structural_tag": null(formTags{}.schema()),
		"whitespace_pattern": null(schema{"type": "string"}), "disable_any_whitespace": null(schema{"type": "boolean"}),
	}}
}

// responseFormat is OpenAI's field for a form.
func responseFormat(f *held) field {
	return input("response_format", responseForm{f, "response_format"},
		`Holds the answer to a form: {"type": "json_schema", "json_schema": {"schema": {...}}}, {"type": "json_object"}, with a schema or without, or {"type": "text"}.`)
}

const wantResponseForm = "one of text, json_object, json_schema, structural_tag"

// responseForm is its target, which other APIs have under other names.
type responseForm struct {
	f     *held
	param string
}

func (t responseForm) take(r *reader) error {
	param, kind := t.param, ""
	var inner held // the schema
	from := r.offset()
	err := r.members("an object with a type", func(name string) error {
		if r.kind() == 'n' {
			_, err := r.raw()
			return err
		}
		var err error
		switch name {
		case "type":
			kind, err = r.text("a string")
		case "schema":
			err = formSchema{&inner, "schema", false}.take(r)
		case "json_schema":
			err = r.members("an object with a schema", func(name string) error {
				if name != "schema" || r.kind() == 'n' {
					_, err := r.raw()
					return err
				}
				return wrap(name, formSchema{&inner, "json_schema", false}.take(r))
			})
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
	if err != nil {
		return err
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
		if inner.Text == "" {
			inner.Text = anyObject
		}
		return t.f.give(param, form.Schema, inner.Text)
	case "json_schema":
		if inner.Text == "" {
			return errors.New("json_schema: schema: missing, want a JSON schema")
		}
		return t.f.give(param, form.Schema, inner.Text)
	case "structural_tag":
		return t.f.give(param, form.Tags, string(r.since(from)))
	case "":
		return errors.New("type: missing, want " + wantResponseForm)
	}
	return fmt.Errorf("type: the string %s, want %s", quote(kind), wantResponseForm)
}

func (t responseForm) value() any { return nil }

func (t responseForm) schema() schema {
	return schema{"type": "object", "required": []string{"type"}, "properties": schema{
		"type":        schema{"type": "string", "enum": []string{"text", "json_object", "json_schema", "structural_tag"}},
		"json_schema": schema{"type": []string{"object", "null"}, "properties": schema{"schema": schema{"type": []string{"object", "boolean", "null"}}}},
		"schema":      schema{"type": []string{"object", "boolean", "null"}},
	}}
}

// settle makes the constraint. Reasoning before the answer is free, and so is text before
// calls of tools, where there is no form. Where the tools' schemas are too much to compile, the
// arguments of those that are not strict are any objects.
func (f *held) settle(m *Model, from source, ends bool) error {
	f.lazy.apply(&f.Form)
	if f.param == "" && from.calls == nil {
		return nil
	}
	a, err := f.compile(m, from.chat, from.calls)
	if err != nil && from.calls != nil {
		loose := *from.calls
		loose.Loose = true
		if b, worse := f.compile(m, from.chat, &loose); worse == nil {
			a, err = b, nil
		}
	}
	if err != nil {
		return err
	}
	f.constraint = a.New(ends)
	return nil
}

// compile returns the automaton of answers to a prompt, nil: of texts.
func (f *held) compile(m *Model, prompt *chat.Prompt, calls *chat.CallRule) (*constrain.Automaton, error) {
	var held *form.Form
	if f.param != "" {
		held = &f.Form
	}
	a, err := held.Compile(m.Tokenizer, m.vocabulary(), prompt, calls)
	if err == nil {
		return a, nil
	}
	param := cmp.Or(f.param, "tools")
	if _, ofTriggers := errors.AsType[*form.TriggerError](err); ofTriggers {
		param = "grammar_triggers"
	}
	if _, ofCalls := errors.AsType[*form.CallsError](err); ofCalls {
		param = "tools"
	}
	return nil, reply.Invalid(param, "%s", oneLine(err))
}

func oneLine(err error) string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(err.Error())
}
