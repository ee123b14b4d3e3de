package ask

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Held is the form that an answer is held to. Several fields give one, of which a request
// may have one.
type Held struct {
	form.Form
	param   string // the field that gave it; empty: none did
	usual   bool   // it is the server's default, which a request's replaces
	reading string // of schemas: one of form.Readings
	Lazy    lazy

	constraint constrain.Constraint // set by settle; each answer gets a fork
}

// Give sets the form to what a field has.
func (f *Held) Give(param string, kind form.Kind, text string) error {
	if f.param != "" && !f.usual {
		if kind == f.Kind && kind != form.Choice && (text == f.Text || kind == form.Schema && sameJSON(text, f.Text)) {
			return nil // clients of several servers give it in several fields
		}
		return fmt.Errorf("given together with %s, want one of them", f.param)
	}
	*f = Held{Form: form.Form{Kind: kind, Text: text, Space: f.Space, Compact: f.Compact}, param: param, reading: f.reading, Lazy: f.Lazy}
	return nil
}

// sameJSON reports whether two texts are the same JSON but for white space.
func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// AnyObject is the schema of a JSON object.
const AnyObject = `{"type":"object"}`

func (f *Held) Fields() []field.Field {
	f.reading = cmp.Or(f.reading, form.Readings[0])
	return append(f.Lazy.Fields(), []field.Field{
		field.Setting("grammar", formText{f, "grammar", form.Grammar, "a grammar"},
			"Holds the answer to a grammar, in GBNF or Lark."),
		field.Input("json_schema", FormSchema{f, "json_schema", false}, "Holds the answer to a JSON schema."),
		field.Input("guided_json", FormSchema{f, "guided_json", true},
			"The same as json_schema; it may be a string of JSON too."),
		field.Input("guided_regex", formText{f, "guided_regex", form.Regex, "a regular expression"},
			"The whole answer matches this regular expression."),
		field.Input("guided_choice", formChoice{f, "guided_choice"},
			"The answer is one of these texts, unless max_tokens ends it before."),
		field.Input("guided_grammar", formText{f, "guided_grammar", form.Grammar, "a grammar"}, "The same as grammar."),
		field.Input("guided_whitespace_pattern", field.Text(&f.Space),
			"A regular expression of the white space between the parts of JSON."),
		field.Setting("guided_schema", field.OneOf(&f.reading, form.Readings...),
			"How schemas are read: closed is as their authors mean it, exact to the letter."),
		field.Input("structured_outputs", structured{f},
			"One of choice, regex, json, json_object, grammar and structural_tag, as the fields with guided_ have them."),
	}...)
}

// formText is a field with the text of a form.
type formText struct {
	f     *Held
	param string
	kind  form.Kind
	what  string
}

func (t formText) Take(r *field.Reader) error {
	s, err := r.Text(t.what)
	if err != nil || s == "" {
		return err
	}
	return t.f.Give(t.param, t.kind, s)
}

func (t formText) Value() any {
	if t.f.param == t.param {
		return t.f.Text
	}
	return ""
}

func (t formText) Schema() field.Schema { return field.Schema{"type": "string"} }

// FormSchema is a field with a JSON schema.
type FormSchema struct {
	F      *Held
	Param  string
	Quoted bool // it may be a string of JSON
}

func (s FormSchema) Take(r *field.Reader) error {
	text := ""
	switch k := r.Kind(); {
	case k == '"' && s.Quoted:
		var err error
		if text, err = r.Text("a JSON schema"); err != nil {
			return err
		}
	case k != '{' && k != 't' && k != 'f':
		return r.Wrong("a JSON schema")
	default:
		v, err := r.Raw()
		if err != nil {
			return err
		}
		text = string(v)
	}
	return s.F.Give(s.Param, form.Schema, text)
}

func (s FormSchema) Value() any { return nil }

func (s FormSchema) Schema() field.Schema {
	types := []string{"object", "boolean"}
	if s.Quoted {
		types = append(types, "string")
	}
	return field.Schema{"type": types, "description": "a JSON schema"}
}

// formChoice is a field with texts of which the answer is one.
type formChoice struct {
	f     *Held
	param string
}

// Bounds of a list of choices.
const (
	maxChoices     = 1 << 16
	maxChoiceBytes = 1 << 20 // of all together
)

func (c formChoice) Take(r *field.Reader) error {
	var list field.Texts
	if err := list.Take(r); err != nil {
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
	if c.f.param != "" && !c.f.usual && c.f.Kind == form.Choice && slices.Equal(c.f.Choices, list) {
		return nil
	}
	err := c.f.Give(c.param, form.Choice, "")
	c.f.Choices = list
	return err
}

func (c formChoice) Value() any { return []string{} }

func (c formChoice) Schema() field.Schema {
	return field.Schema{"type": "array", "items": field.Schema{"type": "string"}, "minItems": 1, "maxItems": maxChoices}
}

// structured is the object in which vLLM's clients send a form.
type structured struct{ f *Held }

func (s structured) Take(r *field.Reader) error {
	return r.Members("an object", func(name string) error {
		if r.Kind() == 'n' {
			_, err := r.Raw()
			return err
		}
		const param = "structured_outputs"
		var to field.Target
		is := false
		switch name {
		case "choice":
			to = formChoice{s.f, param}
		case "regex":
			to = formText{s.f, param, form.Regex, "a regular expression"}
		case "grammar":
			to = formText{s.f, param, form.Grammar, "a grammar"}
		case "json":
			to = FormSchema{s.f, param, true}
		case "structural_tag":
			to = formTags{s.f, param}
		case "whitespace_pattern":
			to = field.Text(&s.f.Space)
		case "json_object", "disable_any_whitespace", "disable_fallback", "disable_additional_properties":
			to = field.Boolean(&is)
		default:
			return fmt.Errorf("%s is no form, want one of choice, regex, json, json_object, grammar, structural_tag",
				field.Quote(name))
		}
		err := to.Take(r)
		switch {
		case err != nil || !is:
		case name == "json_object":
			err = s.f.Give(param, form.Schema, AnyObject)
		case name == "disable_any_whitespace":
			s.f.Compact = true
		case name == "disable_additional_properties":
			s.f.reading = "closed"
		}
		return field.Within(name, err)
	})
}

func (s structured) Value() any { return map[string]any{} }

func (s structured) Schema() field.Schema {
	null := func(sub field.Schema) field.Schema {
		return field.Schema{"anyOf": []field.Schema{sub, {"type": "null"}}}
	}
	return field.Schema{"type": "object", "properties": field.Schema{
		"choice": null(formChoice{}.Schema()), "regex": null(field.Schema{"type": "string"}),
		"grammar": null(field.Schema{"type": "string"}),
		"json":    null(FormSchema{Quoted: true}.Schema()), "json_object": null(field.Schema{"type": "boolean"}),
		"structural_tag":         null(formTags{}.Schema()),
		"whitespace_pattern":     null(field.Schema{"type": "string"}),
		"disable_any_whitespace": null(field.Schema{"type": "boolean"}), "disable_additional_properties": null(field.Schema{"type": "boolean"}),
	}}
}

// ResponseFormat is OpenAI's field for a form.
func ResponseFormat(f *Held) field.Field {
	return field.Input("response_format", ResponseForm{f, "response_format"},
		`Holds the answer to a form: {"type": "json_schema", "json_schema": {"schema": {...}}}, {"type": "json_object"}, with a schema or without, or {"type": "text"}.`)
}

const wantResponseForm = "one of text, json_object, json_schema, structural_tag"

// ResponseForm is its target, which other APIs have under other names.
type ResponseForm struct {
	F     *Held
	Param string
}

func (t ResponseForm) Take(r *field.Reader) error {
	param, kind := t.Param, ""
	var inner Held // the schema
	from := r.Offset()
	err := r.Members("an object with a type", func(name string) error {
		if r.Kind() == 'n' {
			_, err := r.Raw()
			return err
		}
		var err error
		switch name {
		case "type":
			kind, err = r.Text("a string")
		case "schema":
			err = FormSchema{&inner, "schema", false}.Take(r)
		case "value": // as TGI has it
			err = FormSchema{&inner, "value", false}.Take(r)
		case "json_schema":
			err = r.Members("an object with a schema", func(name string) error {
				if name != "schema" || r.Kind() == 'n' {
					_, err := r.Raw()
					return err
				}
				return field.Within(name, FormSchema{&inner, "json_schema", false}.Take(r))
			})
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	if err != nil {
		return err
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
		if inner.Text == "" {
			inner.Text = AnyObject
		}
		return t.F.Give(param, form.Schema, inner.Text)
	case "json_schema":
		if inner.Text == "" {
			return errors.New("json_schema: schema: missing, want a JSON schema")
		}
		return t.F.Give(param, form.Schema, inner.Text)
	case "structural_tag":
		return t.F.Give(param, form.Tags, string(r.Since(from)))
	case "":
		return errors.New("type: missing, want " + wantResponseForm)
	}
	return fmt.Errorf("type: the string %s, want %s", field.Quote(kind), wantResponseForm)
}

func (t ResponseForm) Value() any { return nil }

func (t ResponseForm) Schema() field.Schema {
	return field.Schema{"type": "object", "required": []string{"type"}, "properties": field.Schema{
		"type": field.Schema{"type": "string",
			"enum": []string{"text", "json_object", "json_schema", "structural_tag"}},
		"json_schema": field.Schema{"type": []string{"object", "null"},
			"properties": field.Schema{"schema": field.Schema{"type": []string{"object", "boolean", "null"}}}},
		"schema": field.Schema{"type": []string{"object", "boolean", "null"}},
		"value":  field.Schema{"type": []string{"object", "boolean", "null"}},
	}}
}

// Settle makes the constraint. Reasoning before the answer is free. Without a form, so is text before calls of tools.
// The compiled constraint is cached in the namespace.
func (f *Held) Settle(ctx context.Context, m *Model, from Source, ends bool, namespace string) error {
	f.Namespace, f.Exact = namespace, f.reading == "exact"
	f.Lazy.apply(&f.Form)
	if f.param == "" && from.calls == nil {
		return nil
	}
	a, err := f.compile(ctx, m, from.Chat, from.calls)
	if err != nil {
		return err
	}
	f.constraint = a.New(ends)
	return nil
}

// compile returns the automaton of answers to a prompt, nil: of texts.
func (f *Held) compile(
	ctx context.Context, m *Model, prompt *chat.Prompt, calls *chat.CallRule,
) (*constrain.Automaton, error) {
	held := &f.Form
	if f.param == "" {
		held = &form.Form{Kind: form.Free, Namespace: f.Namespace}
	}
	a, err := held.Compile(ctx, m.Tokenizer, m.vocabulary(), prompt, calls)
	switch {
	case err == nil:
		return a, nil
	case ctx.Err() != nil:
		return nil, Ended(ctx)
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

// Ended returns why the context of a request has ended: its deadline, that it was cancelled, or that the client has gone.
func Ended(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, engine.ErrDeadline):
		return engine.ErrDeadline
	case errors.Is(cause, reply.ErrCancelled):
		return reply.ErrCancelled
	}
	return reply.ErrGone
}

func oneLine(err error) string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(err.Error())
}
