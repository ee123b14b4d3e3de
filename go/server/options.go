package server

import (
	"net/http"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/field"
)

// options are the fields common to all endpoints that generate text.
type options struct {
	model string // the client's name for it, resolved before: see modelName
	sampling
	limits
	speculation
	output
}

func newOptions(m *Model) options {
	return options{sampling: newSampling(m), limits: newLimits(m), speculation: newSpeculation(), output: newOutput(m)}
}

func (o *options) Fields() []field.Field {
	return slices.Concat([]field.Field{
		field.Input("model", field.Text(&o.model), "Which model, by a name that /v1/models has. A server of one answers to any."),
	}, o.limits.Fields(), o.sampling.Fields(), o.form.Fields(), o.speculation.Fields(), o.output.Fields())
}

// common returns the options of the query that embeds them.
func (o *options) common() *options { return o }

// settle resolves fields that depend on each other or on the model.
func (o *options) settle(m *Model, h http.Header) error {
	if err := o.sampling.settle(m); err != nil {
		return err
	}
	if err := o.form.lazy.settle(m); err != nil {
		return err
	}
	if err := o.limits.settle(m, h); err != nil {
		return err
	}
	return o.output.settle()
}

// request returns the engine's request for the i-th answer to a prompt.
func (o *options) request(m *Model, prompt []int32, i int) *engine.Request {
	r := &engine.Request{
		Params: engine.Params{
			Prompt: prompt, MaxTokens: o.maxTokens, Keep: m.Tokenizer.Kept(o.keep), Discard: o.discard, NoShift: !o.shift, Sampling: o.params, Bias: o.bias.sum, TopLogprobs: o.probs, PostProbs: o.postProbs,
			Draft: o.speculation.Options,
		},
		NoCache: !o.cache, Slot: o.slot, Priority: o.priority,
	}
	if !o.ignoreEOS {
		r.Stop = m.Tokenizer.IsEOG
	}
	if o.form.constraint != nil {
		r.Constraint = o.form.constraint.Fork()
	}
	r.Sampling.Seed += uint64(i)
	if o.deadline > 0 {
		r.Deadline = time.Now().Add(o.deadline)
	}
	return r
}

// settings are the options as /props, /slots and answers show them. Settings that only
// llama-server has are shown with the values that disable them.
func (o *options) settings() map[string]any {
	shown := map[string]any{
		"n_probs": max(o.probs, 0), "chat_format": "Content-only", "reasoning_in_content": o.thinking == "deepseek-legacy",
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
