package fake

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Document is an OpenAPI document.
type Document struct {
	JSON []byte

	t testing.TB
	c *jsonschema.Compiler
}

// Document returns the server's.
func (s *Site) Document() *Document {
	s.t.Helper()
	d := &Document{JSON: s.Get("/openapi.json"), t: s.t, c: jsonschema.NewCompiler()}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.JSON))
	if err != nil {
		s.t.Fatal(err)
	}
	d.c.DefaultDraft(jsonschema.Draft2020)
	if err := d.c.AddResource("doc.json", v); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// Schema compiles a schema of the document.
func (d *Document) Schema(pointer string) *jsonschema.Schema {
	d.t.Helper()
	s, err := d.c.Compile("doc.json#" + pointer)
	if err != nil {
		d.t.Fatalf("%s: %v", pointer, err)
	}
	return s
}

// Answers returns the schema of the answers of a path: with the status 200, or default for errors.
func (d *Document) Answers(method, path, status string) *jsonschema.Schema {
	d.t.Helper()
	at := strings.NewReplacer("~", "~0", "/", "~1").Replace(path)
	return d.Schema("/paths/" + at + "/" + method + "/responses/" + status + "/content/application~1json/schema")
}

// Valid checks JSON by a schema.
func Valid(t testing.TB, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return s.Validate(v)
}
