package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A query is a request to Anthropic's /v1/messages.
type query struct {
	ask.Options
	input

	limits agent.Limits   // of calls that the server makes
	log    zerolog.Logger // of them
	size   int            // of the body, in bytes
	resume []block        // calls that the request begins with
	fresh  *query         // as it was before its prompt was made
}

// input is the part of a request that its prompt is made of. It is the whole of a
// request to /v1/messages/count_tokens.
type input struct {
	ask.Conversation
	system   system
	turns    turns
	choice   choice
	thinking thinking
	output   outputConfig
	offers   offers
	seen     []string // what the answer has been told meanwhile

	thread, container absentFeature
}

func (s *API) newQuery(m *ask.Model) *query {
	q := &query{Options: ask.NewOptions(m), limits: s.Limits}
	q.input.init(s)
	q.input.output.form = &q.Form
	if s.Host != nil {
		q.log = s.Host.Log
	}
	return ask.Filled(m, q)
}

func (q *query) Fields() []field.Field {
	return slices.Concat([]field.Field{
		field.Required("max_tokens", field.Integer(&q.MaxTokens, 0, math.MaxInt32),
			"Tokens to generate at most; 0 evaluates the prompt and ends."),
	}, q.input.Fields(), []field.Field{
		field.Setting("stop_sequences stop", &q.Stop, "Texts at which the answer ends. They are not part of it."),
		field.Input("metadata", field.Object{}, "Accepted; without effect."),
		field.Input("service_tier", field.Text(new(string)), "Accepted; without effect."),
		field.Input("cache_control", field.Object{},
			"Accepted, here and in every block: what a prompt has in common with earlier ones is found without it."),
	}, field.Without(q.Options.Fields(), "n_predict", "stop", "n", "stream_options", "reasoning_format", "verbose"))
}

// init has the fields of an empty request.
func (in *input) init(s *API) {
	in.Conversation, in.output = ask.NewConversation(), outputConfig{form: &ask.Held{}}
	in.offers = offers{web: s.Web, servers: s.Servers, knows: in.knows}
}

func (in *input) Fields() []field.Field {
	return []field.Field{
		field.Required("messages", &in.turns, "The conversation so far."),
		field.Input("system", &in.system, "The system prompt, a text or blocks of text."),
		field.Input("tools", tools{&in.Tools, &in.offers}, "Tools that the model may call: those that the client runs, which have an "+
			"input_schema, and web_search_20250305, web_fetch_20250910, both with any date, and mcp_toolset, which the server runs."),
		field.Input("tool_choice", &in.choice, "Whether it may, or must: auto, any, tool or none."),
		field.Input("thinking", &in.thinking, "Whether the model thinks before it answers; by default as its chat "+
			"template has it."),
		field.Setting("chat_template_kwargs", &in.Kwargs, "Further variables for the chat template."),
		field.Input("output_config", &in.output,
			"format holds the answer to a JSON schema; effort is passed to the chat template."),
		field.Input("output_format", ask.ResponseForm{F: in.output.form, Param: "output_format"},
			"The older form of output_config.format."),
		field.Input("thread", &in.thread, "Refused: the server holds no conversation. The error has the code by which "+
			"clients send all of it again."),
		field.Input("mcp_servers", mcpServers{&in.offers}, "MCP servers of the server's configuration, by their names there, whose tools "+
			"the server calls for the model."),
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
func (in *input) refuseAbsent() error {
	switch {
	case in.thread.asked:
		e := reply.Invalid("thread", "the server holds no conversation, want the whole one in messages and no thread")
		e.Extra = map[string]any{"details": threadDetails}
		return e
	case in.container.asked:
		return reply.Invalid("container", "the server runs no code, want none")
	}
	return nil
}

// threadDetails tell a client that sends only what is new of a conversation to go on without.
var threadDetails = map[string]any{"error_code": "thread_unsupported_request", "unsupported": []string{}}

func (q *query) Settle(m *ask.Model, h http.Header) error {
	if q.Options.Thinking == "deepseek-legacy" { // which has thoughts twice
		q.Options.Thinking = "auto"
	}
	return q.Options.Settle(m, h)
}

func (q *query) Source(ctx context.Context, m *ask.Model) (ask.Source, error) {
	if err := q.converse(); err != nil {
		return ask.Source{}, err
	}
	if q.fresh == nil && q.offers.calls() {
		fresh := *q
		q.fresh = &fresh
		ask.KeepTexts(ctx)
	}
	return q.Conversation.Source(ctx, m)
}

// Converse fills in the conversation.
func (in *input) converse() error {
	if err := in.refuseAbsent(); err != nil {
		return err
	}
	if err := in.offers.settle(&in.Tools); err != nil {
		return err
	}
	in.Messages = in.turns.conversation(in.system)
	if len(in.Messages) == 0 {
		return reply.Invalid("messages", "without text, want at least one with")
	}
	in.choice.apply(&in.Toolbox)
	in.Effort = cmp.Or(in.output.effort, in.Effort)
	if in.Kwargs == nil {
		in.Kwargs = ask.TemplateValues{}
	}
	switch in.thinking.kind {
	case "enabled", "adaptive":
		in.Kwargs["enable_thinking"] = []byte("true")
		if in.thinking.budget > 0 {
			in.Budget.Tokens = in.thinking.budget
		}
	case "disabled":
		in.Kwargs["enable_thinking"] = []byte("false")
	}
	return nil
}

// outputConfig is output_config.
type outputConfig struct {
	effort string
	form   *ask.Held
}

func (o *outputConfig) Take(r *field.Reader) error {
	return r.Members("an object", func(name string) error {
		switch {
		case name == "format" && r.Kind() != 'n':
			return field.Within(name, ask.ResponseForm{F: o.form, Param: "output_config"}.Take(r))
		case name == "effort" && r.Kind() != 'n':
			return field.Within(name, field.OneOf(&o.effort, ask.Efforts...).Take(r))
		}
		_, err := r.Raw()
		return err
	})
}

func (o *outputConfig) Value() any { return nil }

func (o *outputConfig) Schema() field.Schema {
	return field.Schema{"type": "object", "properties": field.Schema{
		"effort": field.Schema{"anyOf": []field.Schema{{"enum": ask.Efforts}, {"type": "null"}}},
		"format": field.Schema{"anyOf": []field.Schema{ask.ResponseForm{}.Schema(), {"type": "null"}}},
	}}
}

// thinking says whether the model is to think.
type thinking struct {
	kind   string
	budget int
}

func (t *thinking) Take(r *field.Reader) error {
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

func (t *thinking) Value() any { return nil }

func (t *thinking) Schema() field.Schema {
	return field.Schema{"type": "object", "required": []string{"type"}, "properties": field.Schema{
		"type":          field.Schema{"enum": []string{"enabled", "adaptive", "disabled"}},
		"budget_tokens": field.Schema{"type": []string{"integer", "null"}, "minimum": 1},
	}}
}

// A countQuery is a request to /v1/messages/count_tokens.
type countQuery struct {
	model string
	input
}

func (s *API) newCountQuery(m *ask.Model) *countQuery {
	q := &countQuery{}
	q.init(s)
	return ask.Filled(m, q)
}

func (q *countQuery) Fields() []field.Field {
	return append(q.input.Fields(), field.Input("model", field.Text(&q.model), "Which model."))
}

// count is a number of tokens as Anthropic reports it.
type count struct {
	Tokens int `json:"input_tokens"`
}

func (s *API) countTokens(req *answer.Request) error {
	m := req.Model
	q := s.newCountQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if err := q.converse(); err != nil {
		return err
	}
	q.CountsPrompts()
	src, err := q.Conversation.Source(req.Context(), m)
	if err != nil {
		return err
	}
	req.Send(count{len(src.Prompts[0])})
	return nil
}
