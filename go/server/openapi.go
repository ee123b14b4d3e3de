package server

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/reply"
)

// document is the OpenAPI document of routes and pages. Its defaults are those of
// llama-server; a model or flags may change them, which /props shows.
func document(routes []route, pages []Page, version string) []byte {
	paths := schema{}
	schemas := schema{"Error": errorSchema}
	for _, r := range routes {
		if r.body.name != "" {
			schemas[r.body.name] = requestSchema(r.body)
		}
		for i, path := range r.paths {
			o := schema{"summary": r.summary, "operationId": operationID(r.method, path), "responses": responses(r)}
			if i > 0 {
				o["summary"] = "The same as " + openPath(r.paths[0])
			}
			if len(r.params) > 0 {
				o["parameters"] = parameters(r.params)
			}
			if r.body.name != "" {
				body := schema{"schema": schema{"$ref": "#/components/schemas/" + r.body.name}}
				if r.example != nil {
					body["example"] = r.example
				}
				o["requestBody"] = schema{"required": r.example != nil, "content": schema{"application/json": body}}
			}
			at := openPath(path)
			if paths[at] == nil {
				paths[at] = schema{}
			}
			paths[at].(schema)[strings.ToLower(r.method)] = o
		}
	}
	for _, p := range pages {
		content := schema{p.ContentType: schema{"schema": schema{"type": "string"}}}
		paths[p.Path] = schema{"get": schema{
			"summary": p.Summary, "operationId": operationID(http.MethodGet, p.Path),
			"responses": schema{"200": schema{"description": p.Summary, "content": content}},
		}}
	}
	doc, err := reply.Encode(schema{
		"openapi": "3.1.0",
		"info": schema{
			"title": "Quern", "version": version,
			"description": "OpenAI's interface and llama-server's. Fields with null mean their default, unknown ones are ignored, and what is wrong is refused by name.",
		},
		"paths":      paths,
		"components": schema{"schemas": schemas},
	})
	if err != nil {
		panic(err) // unreachable: the tables are constant
	}
	return doc
}

func (s *Server) serveDocument(c *gin.Context, _ *Model) error {
	c.Data(http.StatusOK, reply.ContentType, s.openAPI)
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
func requestSchema(b body) schema {
	properties := schema{}
	required := []string{}
	for _, f := range b.defaults(&Model{Sampling: sample.Defaults(), Normalize: engine.Euclidean}).fields() {
		for i, name := range f.names {
			p := schema{"description": f.doc}
			if i > 0 {
				p["description"] = "The same as " + f.names[0] + "."
			}
			s := f.to.schema()
			if text, ok := s["description"].(string); ok && s["type"] == nil && s["anyOf"] == nil {
				p["description"] = p["description"].(string) + " " + text // of an unsupported field
				delete(s, "description")
			}
			if !f.need {
				s = schema{"anyOf": []schema{s, {"type": "null"}}}
			}
			for k, v := range s {
				if k != "description" {
					p[k] = v
				}
			}
			if v := f.to.value(); v != nil && !f.input {
				p["default"] = v
			}
			properties[name] = p
		}
		if f.need {
			required = append(required, f.names[0])
		}
	}
	return schema{"type": "object", "properties": properties, "required": required}
}

func parameters(params []param) []schema {
	var out []schema
	for _, p := range params {
		is := p.is
		if is == nil {
			is = schema{"type": "string"}
		}
		out = append(out, schema{"in": p.in, "name": p.name, "description": p.doc, "required": p.in == "path", "schema": is})
	}
	return out
}

// responses are the possible responses of a route.
func responses(r route) schema {
	content := schema{"application/json": schema{"schema": schemaOf(r.answer)}}
	if r.stream {
		content["text/event-stream"] = schema{"schema": schema{"type": "string"}}
	}
	failed := schema{"$ref": "#/components/schemas/Error"}
	if r.anthropic {
		failed = schemaOf(anthropicError{})
	}
	return schema{
		"200":     schema{"description": "The answer.", "content": content},
		"default": schema{"description": "What was wrong.", "content": schema{"application/json": schema{"schema": failed}}},
	}
}

var errorSchema = schema{
	"type": "object", "required": []string{"error"},
	"properties": schema{"error": schema{
		"type": "object", "required": []string{"code", "message", "type"},
		"properties": schema{
			"code":    schema{"type": "integer", "description": "The status."},
			"message": schema{"type": "string"},
			"type":    schema{"type": "string"},
			"param":   schema{"type": "string", "description": "The field at fault."},
		},
	}},
}

// nativeSchema is the response of llama-server's own endpoints. response_fields may
// leave out any of its fields.
var nativeSchema = schema{"type": []string{"object", "array"}, "properties": schema{
	"content":   schema{"type": "string"},
	"tokens":    schema{"type": "array", "items": schema{"type": "integer"}},
	"stop":      schema{"type": "boolean"},
	"stop_type": schema{"enum": []string{stopNone, stopEOS, stopByWord, stopLimit}},
	"timings":   schemaOf(timings{}),
}}

// schemaOf is the schema of a value's type, or the value itself if it is a schema.
func schemaOf(v any) schema {
	if s, ok := v.(schema); ok {
		return s
	}
	return typeSchema(reflect.TypeOf(v))
}

func typeSchema(t reflect.Type) schema {
	if own, ok := reflect.Zero(t).Interface().(interface{ schema() schema }); ok && t.Kind() != reflect.Pointer {
		return own.schema()
	}
	switch t.Kind() {
	case reflect.Slice:
		if t == reflect.TypeFor[jsontext.Value]() {
			return schema{}
		}
		return schema{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Pointer:
		return schema{"anyOf": []schema{typeSchema(t.Elem()), {"type": "null"}}}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": typeSchema(t.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	case reflect.Struct:
		return structSchema(t)
	}
	return schema{} // any type
}

func structSchema(t reflect.Type) schema {
	properties := schema{}
	required := []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			inner := structSchema(f.Type)
			for name, s := range inner["properties"].(schema) {
				properties[name] = s
			}
			required = append(required, inner["required"].([]string)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "omitzero" && f.Type.Kind() == reflect.Slice {
			properties[name] = schema{"type": "array"} // recursive type
			continue
		}
		properties[name] = typeSchema(f.Type)
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return schema{"type": "object", "properties": properties, "required": required}
}
