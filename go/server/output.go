package server

import "github.com/quern-llm/quern/go/server/reply"

// reasoningFormats are those of llama-server.
var reasoningFormats = []string{"none", "auto", "deepseek", "deepseek-legacy"}

// output holds the fields that select what an answer contains.
type output struct {
	stream       bool
	streamOpts   streamOptions
	probs        int // alternatives per token; -1: no log-probabilities
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

func (o *output) fields() []field {
	return []field{
		setting("stream", newBoolean(&o.stream), "Send the answer as it is generated, as server-sent events."),
		input("stream_options", &o.streamOpts, "include_usage sends the usage in an event of its own before the end."),
		setting("post_sampling_probs", newBoolean(&o.postProbs), "Send the probabilities after the samplers, as prob and top_probs, instead of the model's log-probabilities."),
		setting("reasoning_format", oneOf(&o.thinking, reasoningFormats...), "Where a chat's reasoning goes: none leaves it in content, deepseek and auto put it in reasoning_content, deepseek-legacy in both."),
		setting("return_tokens", newBoolean(&o.returnTokens), "Send the ids of the tokens too."),
		setting("return_progress", newBoolean(&o.progress), "With stream: send prompt_progress while the prompt is evaluated."),
		setting("timings_per_token", newBoolean(&o.timings), "With stream: send timings with every event."),
		setting("verbose", newBoolean(&o.verbose), "On OpenAI's endpoints: send llama-server's form of the answer too, as __verbose."),
		setting("sse_ping_interval", integer(&o.ping, -1, 86400), "Seconds of silence after which a stream sends a comment; 0 is the server's setting, -1 never."),
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

func (s *streamOptions) take(r *reader) error {
	s.given = true
	return r.members("an object", func(name string) error {
		if name != "include_usage" || r.kind() == 'n' {
			_, err := r.raw()
			return err
		}
		return wrap(name, newBoolean(&s.usage).take(r))
	})
}

func (s *streamOptions) value() any { return map[string]any{"include_usage": s.usage} }

func (s *streamOptions) schema() schema {
	return schema{"type": "object", "properties": schema{"include_usage": schema{"type": []string{"boolean", "null"}}}}
}
