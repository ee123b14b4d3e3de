// Package ask is what a request asks of a model: how tokens are chosen, how long and of what form the answer is, the
// prompt or the conversation, and the tools that may be called. Each group of fields is a type with its table of
// fields, its defaults, which are the model's, and what it means to the engine. The APIs embed those that they have.
//
// The conversation is read in OpenAI's form, which llama-server has too; other APIs read their own into a Transcript. A
// Source is what comes of either: tokens, and what the answer to them may be.
package ask

import (
	"net/http"
	"slices"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/server/field"
)

// Options are the fields common to all endpoints that generate text.
type Options struct {
	Model string // the client's name for it, resolved before: see modelName
	sampling
	Limits
	Speculation
	output
}

func NewOptions(m *Model) Options {
	return Options{sampling: newSampling(m), Limits: NewLimits(m), Speculation: newSpeculation(), output: newOutput(m)}
}

func (o *Options) Fields() []field.Field {
	return slices.Concat([]field.Field{
		field.Input("model", field.Text(&o.Model),
			"Which model, by a name that /v1/models has. A server of one answers to any."),
	}, o.Limits.Fields(), o.sampling.Fields(), o.Form.Fields(), o.Speculation.Fields(), o.output.Fields())
}

// Common returns the options of the query that embeds them.
func (o *Options) Common() *Options { return o }

// Settle resolves fields that depend on each other or on the model.
func (o *Options) Settle(m *Model, h http.Header) error {
	if err := o.sampling.settle(m); err != nil {
		return err
	}
	if err := o.Form.Lazy.settle(m); err != nil {
		return err
	}
	if err := o.Limits.settle(m, h); err != nil {
		return err
	}
	return o.output.settle()
}

// Request returns the engine's request for the i-th answer to a prompt.
func (o *Options) Request(m *Model, prompt []int32, i int) *engine.Request {
	r := &engine.Request{
		Params: generate.Params{
			Prompt: prompt, MaxTokens: o.MaxTokens, Keep: m.Tokenizer.Kept(o.keep), Discard: o.discard, NoShift: !o.Shift,
			Sampling: o.Params, Bias: o.Bias.sum, TopLogprobs: o.Probs, PostProbs: o.PostProbs,
			Draft: o.Speculation.Options,
		},
		NoCache: !o.cache, Slot: o.slot, Priority: o.Priority, Deadline: o.Until,
	}
	if !o.IgnoreEOS {
		r.Stop = m.Tokenizer.IsEOG
	}
	if o.Form.constraint != nil {
		r.Constraint = o.Form.constraint.Fork()
	}
	r.Sampling.Seed += uint64(i)
	return r
}

// Settings are the options as /props, /slots and answers show them. Settings that only
// llama-server has are shown with the values that disable them.
func (o *Options) Settings() map[string]any {
	shown := map[string]any{
		"n_probs": max(o.Probs, 0), "chat_format": "Content-only", "reasoning_in_content": o.Thinking == "deepseek-legacy",
		"generation_prompt": "", "backend_sampling": false,
	}
	for _, f := range o.Fields() {
		if f.Input {
			continue
		}
		for _, name := range f.Names {
			shown[name] = f.To.Value()
		}
	}
	if o.seed == -1 {
		shown["seed"] = randomSeed
	}
	return shown
}
