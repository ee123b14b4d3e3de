package openai

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// A responsesQuery is a request to OpenAI's /v1/responses.
type responsesQuery struct {
	ask.Options
	ask.Conversation
	stored *history.Store
	owner  string // of what is stored, set before the query is settled

	given        responseItems
	instructions string
	previousID   string
	store        bool
	background   bool
	offered      responseTools
	reasoning    reasoningOptions
	text         textOptions
	metadata     kept
	shownChoice  jsontext.Value
	include      field.Texts
	topLogprobs  int
	truncation   string
	user         string
	cacheKey     string
	safety       string

	previous *history.Record // set by load
	items    []responseItem  // of the conversation, set by load
	lists    []mcpItem       // of tools, which the output begins with
	approved []mcpItem       // calls to make before the model begins
	fresh    *responsesQuery // as it was before its prompt was made

	limits   agent.Limits
	maxCalls int            // of tools of the server, -1: those of the limits
	log      zerolog.Logger // of calls
}

func (s *API) newResponsesQuery(m *ask.Model) *responsesQuery {
	q := &responsesQuery{Options: ask.NewOptions(m), Conversation: ask.NewConversation(), stored: s.Stored, store: true,
		truncation: "disabled"}
	q.offered.to, q.text.form = &q.Tools, &q.Form
	q.offered.mcp, q.offered.web, q.limits, q.maxCalls = s.Tools, s.Web, s.Limits, -1
	if s.Host != nil {
		q.log = s.Host.Log
	}
	return ask.Filled(m, q)
}

func (q *responsesQuery) Fields() []field.Field {
	return slices.Concat(q.input(), []field.Field{
		field.Input("max_output_tokens", field.Integer(&q.MaxTokens, 1, math.MaxInt32),
			"Tokens to generate at most, thoughts included."),
		field.Input("store", field.Boolean(&q.store), "Keep the response, so that it can be had again and gone on with."),
		field.Input("background", field.Boolean(&q.background),
			"Answer at once, and generate meanwhile: GET says how far it is, and sends the events of one that was asked for "+
				"with stream."),
		field.Input("include", &q.include, "reasoning.encrypted_content sends thoughts in a form that clients without a "+
			"store send back; message.output_text.logprobs sends the log-probability of each token of text; web_search_call.action.sources sends the "+
			"URLs that a search has found."),
		field.Input("metadata", &q.metadata, "Kept with the response."),
		field.Input("user", field.Text(&q.user), "Kept with the response."),
		field.Input("prompt_cache_key", field.Text(&q.cacheKey),
			"Kept with the response; what a prompt has in common with earlier ones is found without it."),
		field.Input("safety_identifier", field.Text(&q.safety), "Kept with the response."),
		field.Input("service_tier", field.Text(new(string)), "Accepted; without effect."),
		field.Input("max_tool_calls", field.Integer(&q.maxCalls, 0, math.MaxInt32),
			"Calls of tools of the server at most, within its own limit. After them the model has only the other tools."),
		field.Input("top_logprobs", field.Integer(&q.topLogprobs, 0, ask.MaxProbs),
			"Send log-probabilities with so many of the likeliest tokens too."),
		field.Input("stream_options", field.Object{}, "Accepted; without effect."),
		field.Input("conversation", ask.Neutral{Is: nil, Ok: func(any) bool { return false }, Want: "null"},
			"A stored conversation."),
		field.Input("prompt", ask.Neutral{Is: nil, Ok: func(any) bool { return false }, Want: "null"}, "A stored prompt."),
	}, field.Without(q.Options.Fields(), "model", "n_predict", "n", "stream_options", "reasoning_format", "verbose",
		"post_sampling_probs", "return_tokens"))
}

// input returns the fields that the prompt is made of.
func (q *responsesQuery) input() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&q.Model),
			"Which model, by a name that /v1/models has. A server of one answers to any."),
		field.Input("input", &q.given, "What the model is to answer: a text, or items of a conversation."),
		field.Input("instructions", field.Text(&q.instructions), "The system prompt. The one before does not apply."),
		field.Input("previous_response_id", field.Text(&q.previousID), "Go on after this response, which is stored."),
		field.Input("tools", &q.offered, "Tools that the model may call: functions, custom tools, whose input is a text, "+
			"and namespaces of both, which the client calls; and MCP servers of the server's configuration, whose tools the "+
			"server calls: {\"type\": \"mcp\", \"server_label\": \"wiki\", \"require_approval\": \"never\"}; and web_search and "+
			"web_fetch, where the server has them. Other tools that OpenAI runs and Codex always offers are ignored."),
		field.Input("tool_choice", choiceOf{&q.Choice, &q.shownChoice, &q.offered},
			"Which of them: none, auto, required, {\"type\": \"function\", \"name\": \"get_time\"}, or allowed_tools with "+
				"some of them."),
		field.Setting("parallel_tool_calls", field.Boolean(&q.Parallel), "Whether one answer may have several calls."),
		field.Input("reasoning", &q.reasoning, "effort is for the chat template; with summary, thoughts are sent as one."),
		field.Input("text", &q.text, "format, such as {\"type\": \"json_schema\", \"name\": \"x\", \"schema\": {...}}, "+
			"holds the answer to a form."),
		field.Input("truncation", field.OneOf(&q.truncation, "auto", "disabled"),
			"Without effect: what is too long is refused."),
		field.Setting("chat_template_kwargs", &q.Kwargs, "Further variables for the chat template, such as enable_thinking."),
	}
}

// choiceOf is tool_choice, of which responses have a copy.
type choiceOf struct {
	to    *ask.ToolChoice
	shown *jsontext.Value
	tools *responseTools
}

func (c choiceOf) Take(r *field.Reader) error {
	v, err := r.Raw()
	if err != nil {
		return err
	}
	*c.shown = slices.Clone(v)
	if c.tools.chosenWeb(v) {
		c.to.Mode, c.to.Names = "required", []string{agent.SearchName}
		return nil
	}
	return c.to.Take(field.NewReader(v))
}

func (c choiceOf) Value() any           { return nil }
func (c choiceOf) Schema() field.Schema { return c.to.Schema() }

// reasoningOptions is OpenAI's reasoning.
type reasoningOptions struct{ effort, summary string }

func (o *reasoningOptions) Take(r *field.Reader) error {
	return r.Members("an object", func(name string) (err error) {
		switch {
		case r.Kind() == 'n' || name != "effort" && name != "summary" && name != "generate_summary":
			_, err = r.Raw()
		case name == "effort":
			err = field.OneOf(&o.effort, ask.Efforts...).Take(r)
		default:
			err = field.OneOf(&o.summary, "auto", "concise", "detailed", "none").Take(r)
		}
		return field.Within(name, err)
	})
}

func (o *reasoningOptions) Value() any { return nil }

func (o *reasoningOptions) Schema() field.Schema {
	return field.Schema{"type": "object", "properties": field.Schema{
		"effort": field.Schema{"anyOf": []field.Schema{{"enum": ask.Efforts}, {"type": "null"}}},
		"summary": field.Schema{"anyOf": []field.Schema{{"enum": []string{"auto", "concise", "detailed", "none"}},
			{"type": "null"}}},
	}}
}

// textOptions is OpenAI's text.
type textOptions struct {
	form      *ask.Held
	format    jsontext.Value // as it was sent
	verbosity string
}

func (o *textOptions) Take(r *field.Reader) error {
	return r.Members("an object", func(name string) (err error) {
		switch {
		case r.Kind() == 'n':
			_, err = r.Raw()
		case name == "format":
			from := r.Offset()
			err = ask.ResponseForm{F: o.form, Param: "text"}.Take(r)
			o.format = slices.Clone(r.Since(from))
		case name == "verbosity":
			err = field.OneOf(&o.verbosity, "low", "medium", "high").Take(r)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
}

func (o *textOptions) Value() any { return nil }

func (o *textOptions) Schema() field.Schema {
	return field.Schema{"type": "object", "properties": field.Schema{
		"format":    field.Schema{"anyOf": []field.Schema{ask.ResponseForm{}.Schema(), {"type": "null"}}},
		"verbosity": field.Schema{"anyOf": []field.Schema{{"enum": []string{"low", "medium", "high"}}, {"type": "null"}}},
	}}
}

// kept is an object that is kept as it was sent.
type kept jsontext.Value

func (k *kept) Take(r *field.Reader) error {
	if r.Kind() != '{' {
		return r.Wrong("an object")
	}
	v, err := r.Raw()
	*k = kept(slices.Clone(v))
	return err
}

func (k *kept) Value() any           { return nil }
func (k *kept) Schema() field.Schema { return field.Schema{"type": "object"} }

// Values of include that this server has.
const (
	includeSealed   = "reasoning.encrypted_content"
	includeLogprobs = "message.output_text.logprobs"
)

// included are the values of include that OpenAI has. All but the first three are of tools that OpenAI runs.
var included = []string{
	includeSealed, includeLogprobs, includeSources, "web_search_call.results",
	"file_search_call.results",
	"computer_call_output.output.image_url", "message.input_image.image_url", "code_interpreter_call.outputs",
}

func (q *responsesQuery) Settle(m *ask.Model, h http.Header) error {
	for _, name := range q.include {
		if !slices.Contains(included, name) {
			return reply.Invalid("include", "%s is not supported, want %s, %s or %s", field.Quote(name), includeSealed,
				includeLogprobs, includeSources)
		}
	}
	if q.background && !q.store {
		return reply.Invalid("background", "true without store, want store to be true")
	}
	if q.topLogprobs > 0 || slices.Contains(q.include, includeLogprobs) {
		q.Probs, q.Sorted = q.topLogprobs, true
	}
	if q.Options.Thinking == "deepseek-legacy" { // which has thoughts twice
		q.Options.Thinking = "auto"
	}
	return q.Options.Settle(m, h)
}

// Source makes the prompt, of the stored conversation and the input.
func (q *responsesQuery) Source(ctx context.Context, m *ask.Model) (ask.Source, error) {
	if q.given == nil && q.previousID == "" {
		return ask.Source{}, reply.Invalid("input", "missing, want %s", wantItems)
	}
	var t ask.Transcript
	if q.instructions != "" {
		t.Add("system", chat.Part{Text: q.instructions})
	}
	if err := q.load(); err != nil {
		return ask.Source{}, err
	}
	if q.fresh == nil {
		fresh := *q
		q.fresh = &fresh
		if q.offered.calls {
			ask.KeepTexts(ctx)
		}
	}
	converse(&t, q.items)
	if q.Messages = t.Messages; len(q.Messages) == 0 {
		return ask.Source{}, reply.Invalid("input", "without text, want at least one item with")
	}
	if q.reasoning.effort != "" {
		q.Effort = q.reasoning.effort
	}
	for i, name := range q.Choice.Names {
		q.Choice.Names[i] = q.offered.full(name)
	}
	src, err := q.Conversation.Source(ctx, m)
	if bad := (*reply.Error)(nil); errors.As(err, &bad) && bad.Param == "messages" { // which this API calls otherwise
		own := *bad
		own.Param, own.Message = "input", "input"+strings.TrimPrefix(own.Message, "messages")
		return src, &own
	}
	return src, err
}

// recall admits what the prompt has from the store, beside the body: a short request may have a long conversation. What
// the store does not have is an error of Source.
func (q *responsesQuery) recall(req *answer.Request) error {
	n := 0
	if previous, err := q.stored.Get(keptResponse, q.owner, q.previousID); err == nil {
		for _, v := range previous.Conversation() {
			n += len(v.Raw)
		}
	}
	for _, it := range q.given {
		if it.Type == "item_reference" {
			v, _ := q.stored.Item(q.owner, it.ID)
			n += len(v)
		}
	}
	if n == 0 {
		return nil
	}
	return req.Admit(len(req.Body) + n)
}

// refer replaces a reference by the item that it is to.
func (q *responsesQuery) refer(it *responseItem) error {
	if it.Type != "item_reference" {
		return nil
	}
	v, err := q.stored.Item(q.owner, it.ID)
	if err == nil {
		*it, err = readItem(v)
	}
	return err
}
