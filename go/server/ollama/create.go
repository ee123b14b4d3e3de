package ollama

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A createQuery is a request to /api/create.
type createQuery struct {
	nameFields
	from, system string
	parameters   parameters
	messages     turns
	license      license
	stream       bool
}

func newCreateQuery(*ask.Model) *createQuery { return &createQuery{stream: true} }

// without returns a field of a feature that is not supported: only an empty value is accepted.
func without(name, doc, want string) field.Field {
	empty := func(v any) bool {
		s := fmt.Sprint(v)
		return s == "" || s == "map[]" || s == "[]"
	}
	return field.Input(name, ask.Neutral{Ok: empty, Want: "none: " + want}, doc)
}

func (q *createQuery) Fields() []field.Field {
	const file = "the server's own machine serves a file with -m FILE, and \"quern create\" makes a persona of one"
	return append(q.nameFields.fields("The name of what is created."),
		field.Input("from", field.Text(&q.from), "The model that it is made from, by a name that /api/tags has."),
		field.Input("system", field.Text(&q.system), "The system prompt of conversations that have none."),
		field.Input("parameters", &q.parameters, "Settings by Ollama's names, for requests that leave them out."),
		field.Input("messages", &q.messages, "Example turns, which come before each conversation."),
		field.Input("license", &q.license, "The terms, a text or several."),
		without("template", "Not supported: a template.", "templates are the model's own, or those of --chat-template"),
		without("files", "Not supported: a file of weights.", file),
		without("adapters", "Not supported: adapters of the model.",
			"adapters are loaded with --lora NAME=FILE, and \"quern merge-lora\" makes a model of both"),
		without("quantize", "Not supported: a type of weights.", "\"quern quantize\" makes a file of another type"),
		without("quantization", "Not supported: the older form of quantize.",
			"\"quern quantize\" makes a file of another type"),
		without("modelfile", "Not supported: the form of older clients.",
			"from, system and parameters say the same, and \"quern create -f FILE\" takes a Modelfile"),
		without("path", "Not supported: the form of older clients.", "\"quern create -f FILE\" takes a Modelfile"),
		field.Setting("stream", field.Boolean(&q.stream), "Send what is done, in lines of JSON."),
	)
}

// create stores a persona.
func (s *API) create(req *answer.Request) error {
	q := newCreateQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	p, err := q.persona()
	if err != nil {
		return err
	}
	if err := s.List.Create(req.Context(), p); err != nil {
		return err
	}
	if !q.stream {
		req.Send(pullStatus{Status: "success"})
		return nil
	}
	out := reply.NewLines(req.HTTP)
	for _, status := range []string{"using existing layers of " + p.From, "writing manifest", "success"} {
		if out.Event(pullStatus{Status: status}) != nil {
			return reply.ErrGone
		}
	}
	if out.Flush() != nil {
		return reply.ErrGone
	}
	return nil
}

// persona returns what a request asks for.
func (q *createQuery) persona() (*persona.Persona, error) {
	name, err := q.given()
	switch {
	case err != nil:
		return nil, err
	case q.from == "":
		return nil, reply.Invalid("from", "missing, want the name of a model that /api/tags has")
	}
	p := &persona.Persona{
		Name: name, From: q.from, System: q.system, Parameters: q.parameters.Parameters, License: string(q.license),
	}
	for i, m := range q.messages {
		if len(m.ToolCalls) > 0 {
			return nil, reply.Invalid("messages", "message %d has calls of tools, want texts", i)
		}
		p.Messages = append(p.Messages, persona.Message{Role: m.Role, Content: m.Content.Text})
	}
	if err := p.Check(); err != nil {
		return nil, reply.Bad("%v", err)
	}
	return p, nil
}

// parameters are those of a persona.
type parameters struct{ persona.Parameters }

func (p *parameters) Take(r *field.Reader) error {
	if r.Kind() != '{' {
		return r.Wrong("an object")
	}
	raw, err := r.Raw()
	if err == nil {
		p.Parameters, err = persona.ReadParameters(raw)
	}
	return err
}

func (p *parameters) Value() any { return nil }

func (p *parameters) Schema() field.Schema { return field.Schema{"type": "object"} }

// A license is a text, or several.
type license string

func (l *license) Take(r *field.Reader) error {
	const want = "a text, or an array of texts"
	if r.Kind() != '[' {
		text, err := r.Text(want)
		*l = license(text)
		return err
	}
	var all []string
	err := r.Elements(want, func(int) error {
		text, err := r.Text(want)
		all = append(all, text)
		return err
	})
	*l = license(strings.Join(all, "\n"))
	return err
}

func (l *license) Value() any { return nil }

func (l *license) Schema() field.Schema {
	text := field.Schema{"type": "string"}
	return field.Schema{"description": "a text, or an array of texts",
		"anyOf": []field.Schema{text, {"type": "array", "items": text}}}
}
