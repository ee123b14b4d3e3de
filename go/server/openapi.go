package server

import (
	"net/http"
	"strings"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/openai"
	"github.com/quern-llm/quern/go/server/reply"
)

// document is the OpenAPI document of routes and pages. Its defaults are those of
// llama-server; a model or flags may change them, which /props shows.
func document(routes []answer.Route, pages []Page, version string) []byte {
	paths := field.Schema{}
	schemas := field.Schema{"Error": answer.ErrorSchema(field.Schema{"type": "integer", "description": "The status."})}
	for _, r := range routes {
		if r.Body.Name != "" {
			schemas[r.Body.Name] = requestSchema(r.Body)
		}
		for i, path := range r.Paths {
			o := field.Schema{"summary": r.Summary, "operationId": operationID(r.Method, path), "responses": responses(r)}
			if i > 0 {
				o["summary"] = "The same as " + openPath(r.Paths[0])
			}
			if len(r.Params) > 0 {
				o["parameters"] = parameters(r.Params)
			}
			if r.Body.Name != "" {
				body := field.Schema{"schema": field.Schema{"$ref": "#/components/schemas/" + r.Body.Name}}
				if r.Example != nil {
					body["example"] = r.Example
				}
				o["requestBody"] = field.Schema{"required": r.Example != nil, "content": field.Schema{r.Takes(): body}}
			}
			at := openPath(path)
			if paths[at] == nil {
				paths[at] = field.Schema{}
			}
			paths[at].(field.Schema)[strings.ToLower(r.Method)] = o
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
			"description": "OpenAI's interface and llama-server's. Fields with null mean their default, unknown ones are " +
				"ignored, and what is wrong is refused by name.",
		},
		"paths":      paths,
		"components": field.Schema{"schemas": schemas},
	})
	if err != nil {
		panic(err) // unreachable: the tables are constant
	}
	return doc
}

func (s *Server) serveDocument(req *answer.Request) error {
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
func requestSchema(b answer.Body) field.Schema {
	properties := field.Schema{}
	required := []string{}
	for _, f := range b.Defaults(&ask.Model{Sampling: sample.Defaults(), Normalize: engine.Euclidean}).Fields() {
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

func parameters(params []answer.Param) []field.Schema {
	var out []field.Schema
	for _, p := range params {
		is := p.Is
		if is == nil {
			is = field.Schema{"type": "string"}
		}
		out = append(out, field.Schema{"in": p.In, "name": p.Name, "description": p.Doc, "required": p.In == "path",
			"schema": is})
	}
	return out
}

// responses are the possible responses of a route.
func responses(r answer.Route) field.Schema {
	wrong := r.Speaks().ErrorSchema()
	if r.Models {
		wrong = field.Schema{"anyOf": []field.Schema{openai.Dialect{}.ErrorSchema(), anthropic.Dialect{}.ErrorSchema()}}
	}
	all := field.Schema{"default": field.Schema{"description": "What was wrong.",
		"content": field.Schema{"application/json": field.Schema{"schema": wrong}}}}
	content := field.Schema{}
	if r.Answer != nil {
		content["application/json"] = field.Schema{"schema": field.SchemaOf(r.Answer)}
	}
	if r.Stream {
		content["text/event-stream"] = field.Schema{"schema": field.Schema{"type": "string"}}
	}
	if len(content) == 0 {
		all["204"] = field.Schema{"description": "It is done."}
	} else {
		all["200"] = field.Schema{"description": "The answer.", "content": content}
	}
	return all
}
