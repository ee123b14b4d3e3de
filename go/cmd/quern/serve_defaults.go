package main

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/tokenizer"
)

// requestFlags are defaults of requests, besides those of sampling.
type requestFlags struct {
	ignoreEOS bool
	bias      []string
	stops     []string
	cache     bool
	prefill   bool
	kwargs    string
	reasoning string
	effort    string
	budget    int
	ending    string         // of reasoning that the budget ends
	sampling  *samplingFlags // for those of its flags that are fields
	draft     *draftFlags
	form      formFlags
	flags     *pflag.FlagSet
}

func (f *requestFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	f.form.define(fs)
	switchVar(fs, &f.ignoreEOS, "ignore-eos", false, "continue where the model ends the text")
	fs.StringArrayVar(&f.bias, "logit-bias", nil, "`ID+BIAS` or ID-BIAS, added to the logit of a token; repeatable")
	fs.StringArrayVar(&f.stops, "reverse-prompt", nil, "stop `TEXT` that ends answers; repeatable")
	switchVar(fs, &f.cache, "cache-prompt", true, "use the prefix cache for prompts")
	switchVar(fs, &f.prefill, "prefill-assistant", true, "continue the last message if it is the assistant's")
	fs.StringVar(&f.kwargs, "chat-template-kwargs", "", "`JSON` object of variables for the chat template")
	choiceVar(fs, &f.reasoning, "reasoning", "auto", []string{"auto", "on", "off"}, "reasoning, if the template supports enable_thinking")
	fs.StringVar(&f.effort, "reasoning-effort", "", "`WORD` for the chat template, such as low, medium or high; none disables reasoning")
	intVar(fs, &f.budget, "reasoning-budget", "", -1, -1, math.MaxInt32, "maximum tokens of reasoning; -1 is unlimited")
	fs.StringVar(&f.ending, "reasoning-budget-message", "", "`TEXT` inserted when the budget ends the reasoning")
	for _, name := range []string{"logit-bias", "prefill-assistant", "reverse-prompt"} {
		fs.Lookup(name).Hidden = true
	}
}

// fields returns the flags that were given as fields of a request, and for each field
// the flag that set it.
func (f *requestFlags) fields() (fields map[string]any, by map[string]string, err error) {
	fields, by = map[string]any{}, map[string]string{}
	set := func(flag, field string, value any) {
		if f.flags.Changed(flag) {
			fields[field], by[field] = value, flag
		}
	}
	if level := f.flags.Lookup("log-level"); level != nil && level.Value.String() == "debug" {
		fields["verbose"], by["verbose"] = true, "log-level"
	}
	set("dry-sequence-breaker", "dry_sequence_breakers", append([]string{}, f.sampling.breakers...))
	held, flag, err := f.form.read()
	switch {
	case err != nil:
		return nil, nil, err
	case held != nil && held.Kind == form.Grammar:
		fields["grammar"], by["grammar"] = held.Text, flag
	case held != nil:
		fields["json_schema"], by["json_schema"] = json.RawMessage(held.Text), flag
		if _, err := jsonschema.Grammar([]byte(held.Text), jsonschema.Options{Exact: held.Exact}); err != nil {
			return nil, nil, usagef("--%s: %v", flag, err)
		}
	}
	set("schema", "guided_schema", f.form.reading)
	set("ignore-eos", "ignore_eos", f.ignoreEOS)
	set("speculate", "speculative.types", f.draft.Sources.String())
	set("draft-max", "speculative.n_max", f.draft.Max)
	set("draft-min", "speculative.n_min", f.draft.Min)
	set("draft-p-min", "speculative.p_min", f.draft.MinChance)
	set("reverse-prompt", "stop", f.stops)
	set("cache-prompt", "cache_prompt", f.cache)
	if !f.prefill {
		set("prefill-assistant", "continue_final_message", false)
	}
	set("reasoning-effort", "reasoning_effort", f.effort)
	set("reasoning-budget", "reasoning_budget_tokens", f.budget)
	set("reasoning-budget-message", "reasoning_budget_message", f.ending)

	var biases [][]any
	for _, text := range f.bias {
		b, err := parseBias(text)
		if err != nil {
			return nil, nil, err
		}
		biases = append(biases, b)
	}
	set("logit-bias", "logit_bias", biases)

	kwargs := map[string]any{}
	if f.kwargs != "" {
		if err := json.Unmarshal([]byte(f.kwargs), &kwargs); err != nil || kwargs == nil {
			return nil, nil, usagef(`--chat-template-kwargs %s: want a JSON object such as {"enable_thinking": false}`, f.kwargs)
		}
	}
	if f.reasoning != "auto" {
		kwargs["enable_thinking"] = f.reasoning == "on"
	}
	if len(kwargs) > 0 {
		fields["chat_template_kwargs"], by["chat_template_kwargs"] = kwargs, "chat-template-kwargs"
	}
	return fields, by, nil
}

// defaults returns the defaults of requests. Flags are validated like fields of
// requests, and errors name the flag.
func (f *requestFlags) defaults() (server.Defaults, error) {
	fields, by, err := f.fields()
	if err != nil || len(fields) == 0 {
		return server.Defaults{}, err
	}
	for name, value := range fields {
		if _, err := readDefaults(map[string]any{name: value}); err != nil {
			return server.Defaults{}, usagef("--%s: %w", by[name], err)
		}
	}
	return readDefaults(fields)
}

func readDefaults(fields map[string]any) (server.Defaults, error) {
	body, err := json.Marshal(fields)
	if err != nil {
		return server.Defaults{}, err
	}
	return server.ReadDefaults(body)
}

// parseBias parses a token's id and the value added to its logit: 5+1.5, 5-1, or 5-inf,
// which bans it.
func parseBias(text string) ([]any, error) {
	bad := usagef("--logit-bias %q: want a token's id and a bias such as 15043+1.5, 15043-1 or 15043-inf", text)
	i := strings.IndexAny(text, "+-")
	if i < 1 {
		return nil, bad
	}
	id, err := strconv.ParseInt(text[:i], 10, 32)
	if err != nil {
		return nil, bad
	}
	if text[i:] == "-inf" {
		return []any{id, false}, nil
	}
	value, err := strconv.ParseFloat(text[i:], 32)
	if err != nil || value-value != 0 {
		return nil, bad
	}
	return []any{id, value}, nil
}

// checkTokens refuses biases of tokens that a vocabulary does not have, and grammars that
// it can't write.
func (f *requestFlags) checkTokens(tok *tokenizer.Tokenizer) error {
	n := tok.Len()
	for _, text := range f.bias {
		if b, err := parseBias(text); err == nil && b[0].(int64) >= int64(n) {
			return usagef("--logit-bias %s: the vocabulary has the ids 0 to %d", text, n-1)
		}
	}
	_, err := f.form.constraint(tok, nil, true)
	return err
}
