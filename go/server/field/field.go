// Package field parses the JSON bodies of requests into fields with names, types and
// limits. Each endpoint has a table of fields: validation, defaults and the OpenAPI
// document come from it. A Target is the type of a field; those of plain values are here.
// A Reader parses a value within a body, in one pass and to a maximum depth.
package field

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/reply"
)

// A Query is the body of a request to one endpoint. It holds defaults until fields are
// read into it.
type Query interface {
	// Fields returns all fields of the body, bound to the query. Validation, defaults,
	// /props, the OpenAPI document and the tables of docs/api.md are generated from it.
	Fields() []Field
}

// A Field is a member of a request's body.
type Field struct {
	Names []string // the first is canonical, the others are aliases
	To    Target
	Doc   string
	Need  bool // required
	Input bool // the text itself rather than a setting
}

// Setting returns a field by its names.
func Setting(names string, to Target, doc string) Field {
	return Field{Names: strings.Fields(names), To: to, Doc: doc}
}

// Input returns a field that answers do not echo among their settings.
func Input(names string, to Target, doc string) Field {
	return Field{Names: strings.Fields(names), To: to, Doc: doc, Input: true}
}

// Required returns an input that must be given.
func Required(name string, to Target, doc string) Field {
	return Field{Names: []string{name}, To: to, Doc: doc, Input: true, Need: true}
}

// A Target parses and stores a field's value.
type Target interface {
	Take(r *Reader) error // reads the next value; the error says what is valid
	Value() any           // the current value: before take, the default
	Schema() Schema
}

// A Schema is a JSON schema.
type Schema = map[string]any

// Read reads a body into fields. Unknown fields are ignored, and null counts as
// absent.
func Read(body []byte, fields []Field) error { return read(body, fields, true) }

// ReadSome is Read, except that required fields may be missing.
func ReadSome(body []byte, fields []Field) error { return read(body, fields, false) }

func read(body []byte, fields []Field, whole bool) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return reply.Bad("the body is empty, want a JSON object")
	}
	r := NewReader(body)
	given := make([]struct {
		name  string
		value jsontext.Value
	}, len(fields))
	notObject := r.Kind() != '{'
	err := r.Members("an object", func(name string) error {
		i := slices.IndexFunc(fields, func(f Field) bool { return slices.Contains(f.Names, name) })
		if i < 0 || r.Kind() == 'n' {
			_, err := r.Raw()
			return err
		}
		was := &given[i]
		if was.name != "" {
			v, err := r.Raw()
			if err == nil && !bytes.Equal(v, was.value) {
				err = reply.Invalid(name, "differs from %s, which means the same; want one of them", was.name)
			}
			return err
		}
		from := r.Offset()
		if err := fields[i].To.Take(r); err != nil {
			return At(name, err)
		}
		was.name, was.value = name, r.Since(from)
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
	if err := r.End(); err != nil {
		return err
	}
	for i, f := range fields {
		if whole && f.Need && given[i].name == "" {
			return reply.Invalid(f.Names[0], "missing, want %s", wants(f.To.Schema()))
		}
	}
	return nil
}

// ReadValue reads a body that is a single value rather than an object with fields.
func ReadValue(body []byte, to Target) error {
	r := NewReader(body)
	err := to.Take(r)
	switch {
	case r.fault != nil:
		return r.fault
	case err != nil:
		return reply.Bad("the body: %v", err)
	}
	return r.End()
}

// wants describes in words what a schema accepts.
func wants(s Schema) string {
	if text, ok := s["description"].(string); ok {
		return text
	}
	kind, _ := s["type"].(string)
	if kind == "string" {
		return "a string"
	}
	return "an " + kind
}

// Without returns the fields that have other names than these.
func Without(fields []Field, names ...string) []Field {
	return slices.DeleteFunc(fields, func(f Field) bool { return slices.Contains(names, f.Names[0]) })
}
