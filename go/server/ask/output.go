package ask

import (
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// reasoningFormats are those of llama-server.
var reasoningFormats = []string{"none", "auto", "deepseek", "deepseek-legacy"}

// output holds the fields that select what an answer contains.
type output struct {
	Stream       bool
	StreamOpts   streamOptions
	Probs        int  // alternatives per token; -1: no log-probabilities
	PromptProbs  int  // the same of the prompt's tokens; -1: they have none
	PromptRanks  bool // these have their ranks too
	PostProbs    bool
	Sorted       bool // the tokens of content are wanted by themselves
	Thinking     string
	ReturnTokens bool
	Progress     bool
	Timings      bool
	Verbose      bool
	Ping         int // seconds; -1: none, 0: the server's default
}

func newOutput(m *Model) output {
	o := output{Probs: -1, PromptProbs: -1, Thinking: "auto"}
	if m.ReasoningFormat != "" {
		o.Thinking = m.ReasoningFormat
	}
	return o
}

func (o *output) Fields() []field.Field {
	return []field.Field{
		field.Setting("stream", field.Boolean(&o.Stream), "Send the answer as it is generated, as server-sent events."),
		field.Input("stream_options", &o.StreamOpts, "include_usage sends the usage in an event of its own before the end."),
		field.Setting("post_sampling_probs", field.Boolean(&o.PostProbs),
			"Send the probabilities after the samplers, as prob and top_probs, instead of the model's log-probabilities."),
		field.Setting("reasoning_format", field.OneOf(&o.Thinking, reasoningFormats...),
			"Where a chat's reasoning goes: none leaves it in content, deepseek and auto put it in reasoning_content, "+
				"deepseek-legacy in both."),
		field.Setting("return_tokens", field.Boolean(&o.ReturnTokens), "Send the ids of the tokens too."),
		field.Setting("return_progress", field.Boolean(&o.Progress),
			"With stream: send prompt_progress while the prompt is evaluated."),
		field.Setting("timings_per_token", field.Boolean(&o.Timings), "With stream: send timings with every event."),
		field.Setting("verbose", field.Boolean(&o.Verbose),
			"On OpenAI's endpoints: send llama-server's form of the answer too, as __verbose."),
		field.Setting("sse_ping_interval", field.Integer(&o.Ping, -1, 86400),
			"Seconds of silence after which a stream sends a comment; 0 is the server's setting, -1 never."),
	}
}

func (o *output) settle() error {
	if !o.Stream && o.StreamOpts.given {
		return reply.Invalid("stream_options", "given without stream, want stream to be true")
	}
	return nil
}

// streamOptions is OpenAI's stream_options.
type streamOptions struct{ given, Usage bool }

func (s *streamOptions) Take(r *field.Reader) error {
	s.given = true
	return r.Members("an object", func(name string) error {
		if name != "include_usage" || r.Kind() == 'n' {
			_, err := r.Raw()
			return err
		}
		return field.Within(name, field.Boolean(&s.Usage).Take(r))
	})
}

func (s *streamOptions) Value() any { return map[string]any{"include_usage": s.Usage} }

func (s *streamOptions) Schema() field.Schema {
	return field.Schema{"type": "object", "properties": field.Schema{"include_usage": field.Schema{"type": []string{"boolean", "null"}}}}
}

// MaxProbs is the maximum number of alternatives per token.
const MaxProbs = generate.MaxTopLogprobs

// A ProbCount is the number of alternatives per token. -1 disables log-probabilities,
// as does 0 where off is set.
type ProbCount struct {
	P   *int
	Off bool
}

func (n ProbCount) Take(r *field.Reader) error {
	err := field.Integer(n.P, 0, MaxProbs).Take(r)
	if *n.P == 0 && n.Off {
		*n.P = -1
	}
	return err
}

func (n ProbCount) Value() any { return max(*n.P, 0) }

func (n ProbCount) Schema() field.Schema { return field.Integer(n.P, 0, MaxProbs).Schema() }

func NProbs(o *Options) field.Field {
	return field.Setting("n_probs logprobs", ProbCount{&o.Probs, true},
		"Send the log-probability of each token, and of so many of the likeliest; 0 sends none.")
}
