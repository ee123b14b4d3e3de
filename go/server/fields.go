package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/reply"
)

// A query is the body of a request to one endpoint. It holds defaults until fields are
// read into it.
type query interface {
	// fields returns all fields of the body, bound to the query. Validation, defaults,
	// /props, the OpenAPI document and the tables of docs/api.md are generated from it.
	fields() []field
}

// A field is a member of a request's body.
type field struct {
	names []string // the first is canonical, the others are aliases
	to    target
	doc   string
	need  bool // required
	input bool // the text itself rather than a setting
}

// setting returns a field by its names.
func setting(names string, to target, doc string) field {
	return field{names: strings.Fields(names), to: to, doc: doc}
}

// input returns a field that answers do not echo among their settings.
func input(names string, to target, doc string) field {
	return field{names: strings.Fields(names), to: to, doc: doc, input: true}
}

// required returns an input that must be given.
func required(name string, to target, doc string) field {
	return field{names: []string{name}, to: to, doc: doc, input: true, need: true}
}

// A target parses and stores a field's value.
type target interface {
	take(r *reader) error // reads the next value; the error says what is valid
	value() any           // the current value: before take, the default
	schema() schema
}

// A schema is a JSON schema.
type schema = map[string]any

// readFields reads a body into fields. Unknown fields are ignored, and null counts as
// absent.
func readFields(body []byte, fields []field) error { return takeFields(body, fields, true) }

// readSome is readFields, except that required fields may be missing.
func readSome(body []byte, fields []field) error { return takeFields(body, fields, false) }

func takeFields(body []byte, fields []field, whole bool) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return reply.Bad("the body is empty, want a JSON object")
	}
	r := newReader(body)
	given := make([]struct {
		name  string
		value jsontext.Value
	}, len(fields))
	notObject := r.kind() != '{'
	err := r.members("an object", func(name string) error {
		i := slices.IndexFunc(fields, func(f field) bool { return slices.Contains(f.names, name) })
		if i < 0 || r.kind() == 'n' {
			_, err := r.raw()
			return err
		}
		was := &given[i]
		if was.name != "" {
			v, err := r.raw()
			if err == nil && !bytes.Equal(v, was.value) {
				err = reply.Invalid(name, "differs from %s, which means the same; want one of them", was.name)
			}
			return err
		}
		from := r.offset()
		if err := fields[i].to.take(r); err != nil {
			return at(name, err)
		}
		was.name, was.value = name, r.since(from)
		return nil
	})
	switch {
	case r.fault != nil:
		return r.fault
	case err != nil && notObject:
		return reply.Bad("the body is %v", err)
	case err != nil:
		return err
	}
	if err := r.end(); err != nil {
		return err
	}
	for i, f := range fields {
		if whole && f.need && given[i].name == "" {
			return reply.Invalid(f.names[0], "missing, want %s", wants(f.to.schema()))
		}
	}
	return nil
}

// readValue reads a body that is one value.
func readValue(body []byte, to target) error {
	r := newReader(body)
	err := to.take(r)
	switch {
	case r.fault != nil:
		return r.fault
	case err != nil:
		return reply.Bad("the body: %v", err)
	}
	return r.end()
}

// wants describes in words what a schema accepts.
func wants(s schema) string {
	if text, ok := s["description"].(string); ok {
		return text
	}
	kind, _ := s["type"].(string)
	if kind == "string" {
		return "a string"
	}
	return "an " + kind
}
