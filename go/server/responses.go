package server

import (
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/reply"
)

// A responsesQuery is a request to OpenAI's /v1/responses.
type responsesQuery struct {
	options
	conversation
	stored *responseStore
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
	include      texts
	topLogprobs  int
	truncation   string
	user         string
	cacheKey     string
	safety       string

	previous *storedResponse // set by source
}

func (s *Server) newResponsesQuery(m *Model) *responsesQuery {
	q := &responsesQuery{options: newOptions(m), conversation: newConversation(), stored: s.stored, store: true, truncation: "disabled"}
	q.offered.to, q.text.form = &q.tools, &q.form
	return filled(m, q)
}

func (q *responsesQuery) fields() []field {
	return slices.Concat(q.input(), []field{
		input("max_output_tokens", integer(&q.maxTokens, 1, math.MaxInt32), "Tokens to generate at most, thoughts included."),
		input("store", newBoolean(&q.store), "Keep the response, so that it can be had again and gone on with."),
		input("background", newBoolean(&q.background), "Answer at once, and generate meanwhile: GET says how far it is, and sends the events of one that was asked for with stream."),
		input("include", &q.include, "reasoning.encrypted_content sends thoughts in a form that clients without a store send back; message.output_text.logprobs sends the log-probability of each token of text."),
		input("metadata", &q.metadata, "Kept with the response."),
		input("user", newText(&q.user), "Kept with the response."),
		input("prompt_cache_key", newText(&q.cacheKey), "Kept with the response; what a prompt has in common with earlier ones is found without it."),
		input("safety_identifier", newText(&q.safety), "Kept with the response."),
		input("service_tier", newText(new(string)), "Accepted; without effect."),
		input("max_tool_calls", integer(new(int), 0, math.MaxInt32), "Accepted; without effect: it is of tools that OpenAI runs."),
		input("top_logprobs", integer(&q.topLogprobs, 0, maxProbs), "Send log-probabilities with so many of the likeliest tokens too."),
		input("stream_options", object{}, "Accepted; without effect."),
		input("conversation", neutral{nil, func(any) bool { return false }, "null"}, "A stored conversation."),
		input("prompt", neutral{nil, func(any) bool { return false }, "null"}, "A stored prompt."),
	}, without(q.options.fields(), "model", "n_predict", "n", "stream_options", "reasoning_format", "verbose", "post_sampling_probs", "return_tokens", "timings_per_token", "return_progress"))
}

// input returns the fields that the prompt is made of.
func (q *responsesQuery) input() []field {
	return []field{
		input("model", newText(&q.model), "Which model, by a name that /v1/models has. A server of one answers to any."),
		input("input", &q.given, "What the model is to answer: a text, or items of a conversation."),
		input("instructions", newText(&q.instructions), "The system prompt. The one before does not apply."),
		input("previous_response_id", newText(&q.previousID), "Go on after this response, which is stored."),
		input("tools", &q.offered, "Tools that the model may call: functions, custom tools, whose input is a text, and namespaces of both. Tools that OpenAI runs and Codex always offers are ignored."),
		input("tool_choice", choiceOf{&q.choice, &q.shownChoice}, "Which of them: none, auto, required, {\"type\": \"function\", \"name\": \"get_time\"}, or allowed_tools with some of them."),
		setting("parallel_tool_calls", newBoolean(&q.parallel), "Whether one answer may have several calls."),
		input("reasoning", &q.reasoning, "effort is for the chat template; with summary, thoughts are sent as one."),
		input("text", &q.text, "format, such as {\"type\": \"json_schema\", \"name\": \"x\", \"schema\": {...}}, holds the answer to a form."),
		input("truncation", oneOf(&q.truncation, "auto", "disabled"), "Without effect: what is too long is refused."),
		setting("chat_template_kwargs", &q.kwargs, "Further variables for the chat template, such as enable_thinking."),
	}
}

// choiceOf is tool_choice, of which responses have a copy.
type choiceOf struct {
	to    *toolChoice
	shown *jsontext.Value
}

func (c choiceOf) take(r *reader) error {
	from := r.offset()
	err := c.to.take(r)
	*c.shown = slices.Clone(r.since(from))
	return err
}

func (c choiceOf) value() any     { return nil }
func (c choiceOf) schema() schema { return c.to.schema() }

// reasoningOptions is OpenAI's reasoning.
type reasoningOptions struct{ effort, summary string }

func (o *reasoningOptions) take(r *reader) error {
	return r.members("an object", func(name string) (err error) {
		switch {
		case r.kind() == 'n' || name != "effort" && name != "summary" && name != "generate_summary":
			_, err = r.raw()
		case name == "effort":
			err = oneOf(&o.effort, efforts...).take(r)
		default:
			err = oneOf(&o.summary, "auto", "concise", "detailed", "none").take(r)
		}
		return wrap(name, err)
	})
}

func (o *reasoningOptions) value() any { return nil }

func (o *reasoningOptions) schema() schema {
	return schema{"type": "object", "properties": schema{
		"effort":  schema{"anyOf": []schema{{"enum": efforts}, {"type": "null"}}},
		"summary": schema{"anyOf": []schema{{"enum": []string{"auto", "concise", "detailed", "none"}}, {"type": "null"}}},
	}}
}

// textOptions is OpenAI's text.
type textOptions struct {
	form      *held
	format    jsontext.Value // as it was sent
	verbosity string
}

func (o *textOptions) take(r *reader) error {
	return r.members("an object", func(name string) (err error) {
		switch {
		case r.kind() == 'n':
			_, err = r.raw()
		case name == "format":
			from := r.offset()
			err = responseForm{o.form, "text"}.take(r)
			o.format = slices.Clone(r.since(from))
		case name == "verbosity":
			err = oneOf(&o.verbosity, "low", "medium", "high").take(r)
		default:
			_, err = r.raw()
		}
		return wrap(name, err)
	})
}

func (o *textOptions) value() any { return nil }

func (o *textOptions) schema() schema {
	return schema{"type": "object", "properties": schema{
		"format":    schema{"anyOf": []schema{responseForm{}.schema(), {"type": "null"}}},
		"verbosity": schema{"anyOf": []schema{{"enum": []string{"low", "medium", "high"}}, {"type": "null"}}},
	}}
}

// kept is an object that is kept as it was sent.
type kept jsontext.Value

func (k *kept) take(r *reader) error {
	if r.kind() != '{' {
		return r.wrong("an object")
	}
	v, err := r.raw()
	*k = kept(slices.Clone(v))
	return err
}

func (k *kept) value() any     { return nil }
func (k *kept) schema() schema { return schema{"type": "object"} }

// Values of include that this server has.
const (
	includeSealed   = "reasoning.encrypted_content"
	includeLogprobs = "message.output_text.logprobs"
)

// included are the values of include that OpenAI has. All but the first two are of tools that OpenAI runs.
var included = []string{
	includeSealed, includeLogprobs, "web_search_call.action.sources", "web_search_call.results", "file_search_call.results",
	"computer_call_output.output.image_url", "message.input_image.image_url", "code_interpreter_call.outputs",
}

func (q *responsesQuery) settle(m *Model, h http.Header) error {
	for _, name := range q.include {
		if !slices.Contains(included, name) {
			return reply.Invalid("include", "%s is not supported, want %s or %s", quote(name), includeSealed, includeLogprobs)
		}
	}
	if q.background && !q.store {
		return reply.Invalid("background", "true without store, want store to be true")
	}
	if q.topLogprobs > 0 || slices.Contains(q.include, includeLogprobs) {
		q.probs, q.sorted = q.topLogprobs, true
	}
	if q.options.thinking == "deepseek-legacy" { // which has thoughts twice
		q.options.thinking = "auto"
	}
	return q.options.settle(m, h)
}

// source makes the prompt, of the stored conversation and the input.
func (q *responsesQuery) source(m *Model) (source, error) {
	if q.given == nil && q.previousID == "" {
		return source{}, reply.Invalid("input", "missing, want %s", wantItems)
	}
	var t transcript
	if q.instructions != "" {
		t.add("system", q.instructions)
	}
	if q.previousID != "" {
		var err error
		if q.previous, err = q.stored.get(q.owner, q.previousID); err != nil {
			return source{}, at("previous_response_id", err)
		}
		if body := q.stored.body(q.previous); body.running() {
			return source{}, reply.Invalid("previous_response_id", "%s has not ended, want one that has", quote(q.previousID))
		}
		for _, v := range q.previous.conversation() {
			item, err := readItem(v.raw)
			if err != nil {
				return source{}, fmt.Errorf("a stored item: %w", err)
			}
			item.add(&t)
		}
	}
	for i := range q.given {
		if err := q.refer(&q.given[i]); err != nil {
			return source{}, at("input", wrap(fmt.Sprintf("item %d", i), err))
		}
		q.given[i].add(&t)
	}
	if q.messages = t.messages; len(q.messages) == 0 {
		return source{}, reply.Invalid("input", "without text, want at least one item with")
	}
	if q.reasoning.effort != "" {
		q.effort = q.reasoning.effort
	}
	for i, name := range q.choice.names {
		q.choice.names[i] = q.offered.full(name)
	}
	return q.conversation.source(m)
}

// refer replaces a reference by the item that it is to.
func (q *responsesQuery) refer(it *responseItem) error {
	if it.Type != "item_reference" {
		return nil
	}
	v, err := q.stored.item(q.owner, it.ID)
	if err == nil {
		*it, err = readItem(v)
	}
	return err
}
