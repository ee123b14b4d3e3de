package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A anthropicQuery is a request to Anthropic's /v1/messages.
type anthropicQuery struct {
	options
	anthropicInput
}

// anthropicInput is the part of a request that its prompt is made of. It is the whole of a
// request to /v1/messages/count_tokens.
type anthropicInput struct {
	conversation
	system   anthropicSystem
	turns    anthropicMessages
	choice   anthropicChoice
	thinking anthropicThinking
	output   anthropicOutput

	thread, servers, container absentFeature
}

func newAnthropicQuery(m *Model) *anthropicQuery {
	q := &anthropicQuery{options: newOptions(m), anthropicInput: newAnthropicInput()}
	q.anthropicInput.output.form = &q.form
	return filled(m, q)
}

func (q *anthropicQuery) Fields() []field.Field {
	return slices.Concat([]field.Field{
		field.Required("max_tokens", field.Integer(&q.maxTokens, 0, math.MaxInt32), "Tokens to generate at most; 0 evaluates the prompt and ends."),
	}, q.anthropicInput.Fields(), []field.Field{
		field.Setting("stop_sequences stop", &q.stop, "Texts at which the answer ends. They are not part of it."),
		field.Input("metadata", object{}, "Accepted; without effect."),
		field.Input("service_tier", field.Text(new(string)), "Accepted; without effect."),
		field.Input("cache_control", object{}, "Accepted, here and in every block: what a prompt has in common with earlier ones is found without it."),
	}, without(q.options.Fields(), "n_predict", "stop", "n", "stream_options", "reasoning_format", "verbose"))
}

func newAnthropicInput() anthropicInput {
	return anthropicInput{conversation: newConversation(), output: anthropicOutput{form: &held{}}}
}

func (in *anthropicInput) Fields() []field.Field {
	return []field.Field{
		field.Required("messages", &in.turns, "The conversation so far."),
		field.Input("system", &in.system, "The system prompt, a text or blocks of text."),
		field.Input("tools", anthropicTools{&in.tools}, "Tools that the model may call."),
		field.Input("tool_choice", &in.choice, "Whether it may, or must: auto, any, tool or none."),
		field.Input("thinking", &in.thinking, "Whether the model thinks before it answers; by default as its chat template has it."),
		field.Setting("chat_template_kwargs", &in.kwargs, "Further variables for the chat template."),
		field.Input("output_config", &in.output, "format holds the answer to a JSON schema; effort is passed to the chat template."),
		field.Input("output_format", responseForm{in.output.form, "output_format"}, "The older form of output_config.format."),
		field.Input("thread", &in.thread, "Refused: the server holds no conversation. The error has the code by which clients send all of it again."),
		field.Input("mcp_servers", &in.servers, "Refused unless it is empty: the server calls no tools for this API."),
		field.Input("container", &in.container, "Refused: the server runs no code."),
	}
}

// absentFeature is a field that asks for what the server does not do. Null and an empty list ask for nothing.
type absentFeature struct{ asked bool }

func (f *absentFeature) Take(r *field.Reader) error {
	v, err := r.Raw()
	f.asked = !(v.Kind() == '[' && string(bytes.TrimSpace(v[1:])) == "]")
	return err
}

func (f *absentFeature) Value() any           { return nil }
func (f *absentFeature) Schema() field.Schema { return field.Schema{"description": "nothing"} }

// refuseAbsent refuses what the server would otherwise have to ignore.
func (in *anthropicInput) refuseAbsent() error {
	switch {
	case in.thread.asked:
		e := reply.Invalid("thread", "the server holds no conversation, want the whole one in messages and no thread")
		e.Extra = map[string]any{"details": threadDetails}
		return e
	case in.servers.asked:
		return reply.Invalid("mcp_servers", "the server calls none for a conversation, want tools with an input_schema, which the client runs")
	case in.container.asked:
		return reply.Invalid("container", "the server runs no code, want none")
	}
	return nil
}

// threadDetails tell a client that sends only what is new of a conversation to go on without.
var threadDetails = map[string]any{"error_code": "thread_unsupported_request", "unsupported": []string{}}

// without returns the fields that have other names than these.
func without(fields []field.Field, names ...string) []field.Field {
	return slices.DeleteFunc(fields, func(f field.Field) bool { return slices.Contains(names, f.Names[0]) })
}

func (q *anthropicQuery) settle(m *Model, h http.Header) error {
	if q.options.thinking == "deepseek-legacy" { // which has thoughts twice
		q.options.thinking = "auto"
	}
	return q.options.settle(m, h)
}

func (q *anthropicQuery) source(ctx context.Context, m *Model) (source, error) {
	if err := q.converse(); err != nil {
		return source{}, err
	}
	return q.conversation.source(ctx, m)
}

// converse fills in the conversation.
func (in *anthropicInput) converse() error {
	if err := in.refuseAbsent(); err != nil {
		return err
	}
	in.messages = in.turns.conversation(in.system)
	if len(in.messages) == 0 {
		return reply.Invalid("messages", "without text, want at least one with")
	}
	in.choice.apply(&in.toolbox)
	in.effort = cmp.Or(in.output.effort, in.effort)
	if in.kwargs == nil {
		in.kwargs = templateValues{}
	}
	switch in.thinking.kind {
	case "enabled", "adaptive":
		in.kwargs["enable_thinking"] = []byte("true")
		if in.thinking.budget > 0 {
			in.budget.tokens = in.thinking.budget
		}
	case "disabled":
		in.kwargs["enable_thinking"] = []byte("false")
	}
	return nil
}

// anthropicOutput is output_config.
type anthropicOutput struct {
	effort string
	form   *held
}

func (o *anthropicOutput) Take(r *field.Reader) error {
	return r.Members("an object", func(name string) error {
		switch {
		case name == "format" && r.Kind() != 'n':
			return field.Within(name, responseForm{o.form, "output_config"}.Take(r))
		case name == "effort" && r.Kind() != 'n':
			return field.Within(name, field.OneOf(&o.effort, efforts...).Take(r))
		}
		_, err := r.Raw()
		return err
	})
}

func (o *anthropicOutput) Value() any { return nil }

func (o *anthropicOutput) Schema() field.Schema {
	return field.Schema{"type": "object", "properties": field.Schema{
		"effort": field.Schema{"anyOf": []field.Schema{{"enum": efforts}, {"type": "null"}}}, "format": field.Schema{"anyOf": []field.Schema{responseForm{}.Schema(), {"type": "null"}}},
	}}
}

// anthropicThinking says whether the model is to think.
type anthropicThinking struct {
	kind   string
	budget int
}

func (t *anthropicThinking) Take(r *field.Reader) error {
	err := r.Members("an object", func(name string) error {
		var err error
		switch {
		case r.Kind() == 'n':
			_, err = r.Raw()
		case name == "type":
			err = field.OneOf(&t.kind, "enabled", "adaptive", "disabled").Take(r)
		case name == "budget_tokens":
			err = field.Integer(&t.budget, 1, math.MaxInt32).Take(r)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	if err == nil && t.kind == "" {
		err = fmt.Errorf("type: missing, want enabled, adaptive or disabled")
	}
	return err
}

func (t *anthropicThinking) Value() any { return nil }

func (t *anthropicThinking) Schema() field.Schema {
	return field.Schema{"type": "object", "required": []string{"type"}, "properties": field.Schema{
		"type":          field.Schema{"enum": []string{"enabled", "adaptive", "disabled"}},
		"budget_tokens": field.Schema{"type": []string{"integer", "null"}, "minimum": 1},
	}}
}

// object is a field of an object that is accepted for its senders' sake.
type object struct{}

func (object) Take(r *field.Reader) error {
	if r.Kind() != '{' {
		return r.Wrong("an object")
	}
	_, err := r.Raw()
	return err
}

func (object) Value() any           { return nil }
func (object) Schema() field.Schema { return field.Schema{"type": "object"} }

// A anthropicCountQuery is a request to /v1/messages/count_tokens.
type anthropicCountQuery struct {
	model string
	anthropicInput
}

func newAnthropicCountQuery(m *Model) *anthropicCountQuery {
	return filled(m, &anthropicCountQuery{anthropicInput: newAnthropicInput()})
}

func (q *anthropicCountQuery) Fields() []field.Field {
	return append(q.anthropicInput.Fields(), field.Input("model", field.Text(&q.model), "Which model."))
}

// anthropicCount is a number of tokens as Anthropic reports it.
type anthropicCount struct {
	Tokens int `json:"input_tokens"`
}

func (s *Server) anthropicCountTokens(req *Request) error {
	m := req.Model
	q := newAnthropicCountQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if err := q.converse(); err != nil {
		return err
	}
	q.conversation.counted = true
	src, err := q.conversation.source(req.Context(), m)
	if err != nil {
		return err
	}
	req.Send(anthropicCount{len(src.prompts[0])})
	return nil
}
