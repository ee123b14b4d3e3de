package server

import (
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// reasoningFormats are those of llama-server.
var reasoningFormats = []string{"none", "auto", "deepseek", "deepseek-legacy"}

// output holds the fields that select what an answer contains.
type output struct {
	stream       bool
	streamOpts   streamOptions
	probs        int  // alternatives per token; -1: no log-probabilities
	promptProbs  bool // the prompt's tokens have theirs too
	postProbs    bool
	sorted       bool // the tokens of content are wanted by themselves
	thinking     string
	returnTokens bool
	progress     bool
	timings      bool
	verbose      bool
	ping         int // seconds; -1: none, 0: the server's default
}

func newOutput(m *Model) output {
	o := output{probs: -1, thinking: "auto"}
	if m.ReasoningFormat != "" {
		o.thinking = m.ReasoningFormat
	}
	return o
}

func (o *output) Fields() []field.Field {
	return []field.Field{
		field.Setting("stream", field.Boolean(&o.stream), "Send the answer as it is generated, as server-sent events."),
		field.Input("stream_options", &o.streamOpts, "include_usage sends the usage in an event of its own before the end."),
		field.Setting("post_sampling_probs", field.Boolean(&o.postProbs), "Send the probabilities after the samplers, as prob and top_probs, instead of the model's log-probabilities."),
		field.Setting("reasoning_format", field.OneOf(&o.thinking, reasoningFormats...), "Where a chat's reasoning goes: none leaves it in content, deepseek and auto put it in reasoning_content, deepseek-legacy in both."),
		field.Setting("return_tokens", field.Boolean(&o.returnTokens), "Send the ids of the tokens too."),
		field.Setting("return_progress", field.Boolean(&o.progress), "With stream: send prompt_progress while the prompt is evaluated."),
		field.Setting("timings_per_token", field.Boolean(&o.timings), "With stream: send timings with every event."),
		field.Setting("verbose", field.Boolean(&o.verbose), "On OpenAI's endpoints: send llama-server's form of the answer too, as __verbose."),
		field.Setting("sse_ping_interval", field.Integer(&o.ping, -1, 86400), "Seconds of silence after which a stream sends a comment; 0 is the server's setting, -1 never."),
	}
}

func (o *output) settle() error {
	if !o.stream && o.streamOpts.given {
		return reply.Invalid("stream_options", "given without stream, want stream to be true")
	}
	return nil
}

// streamOptions is OpenAI's stream_options.
type streamOptions struct{ given, usage bool }

func (s *streamOptions) Take(r *field.Reader) error {
	s.given = true
	return r.Members("an object", func(name string) error {
		if name != "include_usage" || r.Kind() == 'n' {
			_, err := r.Raw()
			return err
		}
		return field.Within(name, field.Boolean(&s.usage).Take(r))
	})
}

func (s *streamOptions) Value() any { return map[string]any{"include_usage": s.usage} }

func (s *streamOptions) Schema() field.Schema {
	return field.Schema{"type": "object", "properties": field.Schema{"include_usage": field.Schema{"type": []string{"boolean", "null"}}}}
}
