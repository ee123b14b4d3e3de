package server

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// document is the OpenAPI document of routes and pages. Its defaults are those of
// llama-server; a model or flags may change them, which /props shows.
func document(routes []route, pages []Page, version string) []byte {
	paths := field.Schema{}
	schemas := field.Schema{"Error": errorSchema}
	for _, r := range routes {
		if r.body.name != "" {
			schemas[r.body.name] = requestSchema(r.body)
		}
		for i, path := range r.paths {
			o := field.Schema{"summary": r.summary, "operationId": operationID(r.method, path), "responses": responses(r)}
			if i > 0 {
				o["summary"] = "The same as " + openPath(r.paths[0])
			}
			if len(r.params) > 0 {
				o["parameters"] = parameters(r.params)
			}
			if r.body.name != "" {
				body := field.Schema{"schema": field.Schema{"$ref": "#/components/schemas/" + r.body.name}}
				if r.example != nil {
					body["example"] = r.example
				}
				o["requestBody"] = field.Schema{"required": r.example != nil, "content": field.Schema{"application/json": body}}
			}
			at := openPath(path)
			if paths[at] == nil {
				paths[at] = field.Schema{}
			}
			paths[at].(field.Schema)[strings.ToLower(r.method)] = o
		}
	}
	for _, p := range pages {
		content := field.Schema{p.ContentType: field.Schema{"schema": field.Schema{"type": "string"}}}
		paths[p.Path] = field.Schema{"get": field.Schema{
			"summary": p.Summary, "operationId": operationID(http.MethodGet, p.Path),
			"responses": field.Schema{"200": field.Schema{"description": p.Summary, "content": content}},
		}}
	}
	doc, err := reply.Encode(field.Schema{
		"openapi": "3.1.0",
		"info": field.Schema{
			"title": "Quern", "version": version,
			"description": "OpenAI's interface and llama-server's. Fields with null mean their default, unknown ones are ignored, and what is wrong is refused by name.",
		},
		"paths":      paths,
		"components": field.Schema{"schemas": schemas},
	})
	if err != nil {
		panic(err) // unreachable: the tables are constant
	}
	return doc
}

func (s *Server) serveDocument(req *Request) error {
	req.HTTP.Data(http.StatusOK, reply.ContentType, s.openAPI)
	return nil
}

// openPath is a path with its parameters in OpenAPI's syntax.
func openPath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if p != "" && (p[0] == ':' || p[0] == '*') {
			parts[i] = "{" + p[1:] + "}"
		}
	}
	return strings.Join(parts, "/")
}

func operationID(method, path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/:*.-_", r) })
	return strings.ToLower(method) + "_" + strings.Join(words, "_")
}

// requestSchema is the schema of an endpoint's request body.
func requestSchema(b body) field.Schema {
	properties := field.Schema{}
	required := []string{}
	for _, f := range b.defaults(&ask.Model{Sampling: sample.Defaults(), Normalize: engine.Euclidean}).Fields() {
		for i, name := range f.Names {
			p := field.Schema{"description": f.Doc}
			if i > 0 {
				p["description"] = "The same as " + f.Names[0] + "."
			}
			s := f.To.Schema()
			if text, ok := s["description"].(string); ok && s["type"] == nil && s["anyOf"] == nil {
				p["description"] = p["description"].(string) + " " + text // of an unsupported field
				delete(s, "description")
			}
			if !f.Need {
				s = field.Schema{"anyOf": []field.Schema{s, {"type": "null"}}}
			}
			for k, v := range s {
				if k != "description" {
					p[k] = v
				}
			}
			if v := f.To.Value(); v != nil && !f.Input {
				p["default"] = v
			}
			properties[name] = p
		}
		if f.Need {
			required = append(required, f.Names[0])
		}
	}
	return field.Schema{"type": "object", "properties": properties, "required": required}
}

func parameters(params []param) []field.Schema {
	var out []field.Schema
	for _, p := range params {
		is := p.is
		if is == nil {
			is = field.Schema{"type": "string"}
		}
		out = append(out, field.Schema{"in": p.in, "name": p.name, "description": p.doc, "required": p.in == "path", "schema": is})
	}
	return out
}

// responses are the possible responses of a route.
func responses(r route) field.Schema {
	content := field.Schema{"application/json": field.Schema{"schema": schemaOf(r.answer)}}
	if r.stream {
		content["text/event-stream"] = field.Schema{"schema": field.Schema{"type": "string"}}
	}
	return field.Schema{
		"200":     field.Schema{"description": "The answer.", "content": content},
		"default": field.Schema{"description": "What was wrong.", "content": field.Schema{"application/json": field.Schema{"schema": r.speaks().ErrorSchema()}}},
	}
}

var errorSchema = field.Schema{
	"type": "object", "required": []string{"error"},
	"properties": field.Schema{"error": field.Schema{
		"type": "object", "required": []string{"code", "message", "type"},
		"properties": field.Schema{
			"code":    field.Schema{"type": "integer", "description": "The status."},
			"message": field.Schema{"type": "string"},
			"type":    field.Schema{"type": "string"},
			"param":   field.Schema{"type": "string", "description": "The field at fault."},
		},
	}},
}

// nativeSchema is the response of llama-server's own endpoints. response_fields may
// leave out any of its fields.
var nativeSchema = field.Schema{"type": []string{"object", "array"}, "properties": field.Schema{
	"content":   field.Schema{"type": "string"},
	"tokens":    field.Schema{"type": "array", "items": field.Schema{"type": "integer"}},
	"stop":      field.Schema{"type": "boolean"},
	"stop_type": field.Schema{"enum": []string{stopNone, stopEOS, stopByWord, stopLimit}},
	"timings":   schemaOf(timings{}),
}}

// schemaOf is the schema of a value's type, or the value itself if it is a schema.
func schemaOf(v any) field.Schema {
	if s, ok := v.(field.Schema); ok {
		return s
	}
	return typeSchema(reflect.TypeOf(v))
}

func typeSchema(t reflect.Type) field.Schema {
	if own, ok := reflect.Zero(t).Interface().(interface{ Schema() field.Schema }); ok && t.Kind() != reflect.Pointer {
		return own.Schema()
	}
	switch t.Kind() {
	case reflect.Slice:
		if t == reflect.TypeFor[jsontext.Value]() {
			return field.Schema{}
		}
		return field.Schema{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Pointer:
		return field.Schema{"anyOf": []field.Schema{typeSchema(t.Elem()), {"type": "null"}}}
	case reflect.Map:
		return field.Schema{"type": "object", "additionalProperties": typeSchema(t.Elem())}
	case reflect.String:
		return field.Schema{"type": "string"}
	case reflect.Bool:
		return field.Schema{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return field.Schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return field.Schema{"type": "number"}
	case reflect.Struct:
		return structSchema(t)
	}
	return field.Schema{} // any type
}

func structSchema(t reflect.Type) field.Schema {
	properties := field.Schema{}
	required := []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			inner := structSchema(f.Type)
			for name, s := range inner["properties"].(field.Schema) {
				properties[name] = s
			}
			required = append(required, inner["required"].([]string)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "omitzero" && f.Type.Kind() == reflect.Slice {
			properties[name] = field.Schema{"type": "array"} // recursive type
			continue
		}
		properties[name] = typeSchema(f.Type)
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return field.Schema{"type": "object", "properties": properties, "required": required}
}
