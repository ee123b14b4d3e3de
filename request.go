package quern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Request asks a model for a text. Messages or Prompt are needed; all else may be left out, and is then as the model's
// file says.
type Request struct {
	// Messages are a conversation that the model answers, by its chat template. If the last one is the assistant's, the
	// model goes on with it.
	Messages []Message
	// Prompt, in place of Messages, is a text that the model continues as it stands.
	Prompt string

	Tools      []Tool
	ToolChoice ToolChoice
	Format     *Format // that the answer is held to; nil: any text

	// How tokens are chosen. Go 1.26 spells a pointer to a number new(0.7).
	Temperature      *float64 // 0 takes the likeliest token
	TopP             *float64 // of the likeliest tokens, as many as have this probability together; 1: all
	TopK             *int     // of the likeliest tokens, so many; 0: all
	MinP             *float64 // tokens of at least this share of the likeliest one's probability
	RepeatPenalty    *float64 // 1: none
	PresencePenalty  *float64
	FrequencyPenalty *float64
	Seed             *uint64 // the same seed gives the same text, whatever else runs; nil: another one each time

	MaxTokens       int      // of the answer; 0: until it ends, or the context does
	Stop            []string // texts that end the answer, and are no part of it
	IgnoreEnd       bool     // go on where the model would end
	ReasoningEffort string   // none, or what the model's template knows, such as low or high
	ReasoningTokens *int     // after which reasoning is ended; nil: never
	TemplateValues  map[string]any

	// TopLogprobs has each token come with its log-probability and those of so many likeliest ones; nil: none.
	TopLogprobs *int
	// Priority: texts of a higher one go first.
	Priority int
}

// MaxTopLogprobs is the most alternatives that a token comes with.
const MaxTopLogprobs = 100

// A ToolChoice says which tools may be called. With the zero value the model decides; [NoCalls] and [CallOf] return others.
type ToolChoice struct {
	mode  callMode
	names []string
}

type callMode int

const (
	callsFree callMode = iota
	callsNone
	callsRequired
)

// NoCalls has the model call no tool.
func NoCalls() ToolChoice { return ToolChoice{mode: callsNone} }

// CallOf has the model call one at least of the tools with these names; without names, of all tools.
func CallOf(names ...string) ToolChoice { return ToolChoice{callsRequired, slices.Clone(names)} }

// A Format is what an answer is held to: the model can write nothing else.
type Format struct{ form form.Form }

// JSON holds an answer to an object of JSON.
func JSON() *Format { return JSONSchema([]byte(`{"type":"object"}`)) }

// JSONSchema holds an answer to a JSON schema.
func JSONSchema(schema []byte) *Format {
	return &Format{form.Form{Kind: form.Schema, Text: string(schema)}}
}

// Regex holds an answer to a regular expression of all of it.
func Regex(expr string) *Format { return &Format{form.Form{Kind: form.Regex, Text: expr}} }

// Choice holds an answer to one of some texts.
func Choice(texts ...string) *Format { return &Format{form.Form{Kind: form.Choice, Choices: texts}} }

// Grammar holds an answer to a grammar in GBNF or Lark.
func Grammar(text string) *Format { return &Format{form.Form{Kind: form.Grammar, Text: text}} }

// A prepared is a request as the engine takes it.
type prepared struct {
	engine.Request
	reply *chat.Reply // parses the answer; nil: all is text
	text  *tokenizer.Stream
	stops *tokenizer.Stops
	tok   *tokenizer.Tokenizer
}

// prepare makes the prompt and the constraint of a request, and checks its options. Nothing of it refers to r.
func (m *Model) prepare(ctx context.Context, r *Request) (*prepared, error) {
	if m.open.Head.Config.BothWays {
		return nil, unsupported(fmt.Sprintf("%s %v", m.open.Head.Config.Arch, engine.ErrBothWays))
	}
	p := &prepared{tok: m.tok, stops: tokenizer.NewStops(r.Stop, 0)}
	prompt, err := m.prompt(ctx, r, p)
	if err != nil {
		return nil, err
	}
	if err := m.sampled(r, p); err != nil {
		return nil, err
	}
	p.MaxTokens, p.NoShift, p.Slot, p.Priority = -1, true, -1, r.Priority
	p.Draft = draft.Options{Sources: m.open.Head.Settings.Draft.Sources, Max: draft.Defaults.Max}
	switch {
	case r.MaxTokens > 0:
		p.MaxTokens = r.MaxTokens
	case r.MaxTokens < 0:
		return nil, invalid(fmt.Sprintf("MaxTokens %d, want at least 1, or 0 for no limit", r.MaxTokens))
	}
	if !r.IgnoreEnd {
		p.Params.Stop = m.tok.IsEOG
	}
	p.Adapters = m.open.Adapters
	if p.Constraint, err = m.constraint(ctx, r, prompt); err != nil {
		return nil, err
	}
	return p, nil
}

// given refuses a request without a text, or with two.
func (r *Request) given() error {
	switch {
	case len(r.Messages) > 0 && r.Prompt != "":
		return invalid("Messages and Prompt are both given, want one of them")
	case len(r.Messages) == 0 && r.Prompt == "":
		return invalid("neither Messages nor Prompt is given, want one of them")
	}
	return nil
}

// prompt makes the tokens of a request, and what reads the answer to it.
func (m *Model) prompt(ctx context.Context, r *Request, p *prepared) (*chat.Prompt, error) {
	if err := r.given(); err != nil {
		return nil, err
	}
	switch {
	case r.Prompt != "" && len(r.Tools) > 0:
		return nil, invalid("Tools are given with Prompt, want Messages")
	case r.Prompt != "":
		p.text = m.tok.NewStream()
		return nil, m.encode(p, r.Prompt, tokenizer.Options{ParseSpecial: true})
	}
	prompt, err := m.render(ctx, r)
	if err != nil {
		return nil, err
	}
	p.reply, p.text = prompt.Reply(), m.tok.NewStream(prompt.Marks()...)
	tokens, err := m.open.Projector.Tokens(ctx, m.tok, m.open.Engine.Ctx(), prompt.Pieces())
	if err != nil {
		return nil, err
	}
	if p.Prompt, p.Media = tokens.IDs, tokens.Media; len(p.Prompt) == 0 {
		return nil, errEmpty
	}
	return &prompt, nil
}

// render makes a prompt of the messages.
func (m *Model) render(ctx context.Context, r *Request) (chat.Prompt, error) {
	in, err := m.input(ctx, r)
	if err != nil {
		return chat.Prompt{}, err
	}
	prompt, err := m.template.Render(in)
	switch {
	case ctx.Err() != nil:
		return chat.Prompt{}, context.Cause(ctx)
	case err != nil:
		return chat.Prompt{}, &failure{ErrInvalid, fmt.Errorf("the chat template refuses the messages: %w", err)}
	}
	return prompt, nil
}

var errEmpty = invalid("the prompt is empty, and the model has no token to begin with; give some text")

// encode sets the prompt to the tokens of a text, unless they are too many by far.
func (m *Model) encode(p *prepared, text string, o tokenizer.Options) error {
	ids, err := m.reads(text, o, 0)
	if err != nil {
		return err
	}
	if p.Prompt = m.tok.Begin(ids); len(p.Prompt) == 0 {
		return errEmpty
	}
	return nil
}

// input is what the chat template makes a prompt of.
func (m *Model) input(ctx context.Context, r *Request) (in chat.Input, err error) {
	if in.Messages, err = rendered(r.Messages); err != nil {
		return in, err
	}
	if len(in.Messages) == 0 {
		return in, invalid("the messages have no parts")
	}
	for i := range in.Messages {
		c := &in.Messages[i].Content
		if in.Messages[i].Role == string(RoleTool) { // what a tool answers is not the program's choice
			*c = c.Taken(func(one *chat.Medium) bool { return m.open.Projector.Takes(one.Kind) })
		}
		for _, one := range c.Media() {
			if one.Kind, err = reading.KindAs(one); err != nil {
				return in, invalid(fmt.Sprintf("message %d: %v", i, err))
			}
			if !m.open.Projector.Takes(one.Kind) {
				return in, unsupported(fmt.Sprintf("message %d has a %s, and the model takes none: one that does comes with its projector", i, one.Kind))
			}
		}
	}
	in.Until = ctx
	in.Kwargs = map[string]json.RawMessage{}
	for name, v := range r.TemplateValues {
		if in.Kwargs[name], err = json.Marshal(v); err != nil {
			return in, &failure{ErrInvalid, fmt.Errorf("TemplateValues: %s: %w", name, err)}
		}
	}
	if r.ReasoningEffort == "none" {
		in.Kwargs["enable_thinking"] = json.RawMessage("false")
	} else {
		in.ReasoningEffort = r.ReasoningEffort
	}
	if r.ToolChoice.mode != callsNone {
		if in.Tools, err = specs(r.Tools); err != nil {
			return in, err
		}
	}
	last := in.Messages[len(in.Messages)-1]
	in.ContinueFinalMessage = last.Role == string(RoleAssistant) && len(last.ToolCalls) == 0
	in.AddGenerationPrompt = !in.ContinueFinalMessage
	return in, nil
}

// sampled sets how tokens are chosen.
func (m *Model) sampled(r *Request, p *prepared) error {
	s := m.sampling
	for _, one := range []struct {
		given *float64
		to    *float32
	}{
		{r.Temperature, &s.Temp}, {r.TopP, &s.TopP}, {r.MinP, &s.MinP}, {r.RepeatPenalty, &s.RepeatPenalty},
		{r.PresencePenalty, &s.PresencePenalty}, {r.FrequencyPenalty, &s.FrequencyPenalty},
	} {
		if one.given != nil {
			*one.to = float32(*one.given)
		}
	}
	if r.TopK != nil {
		s.TopK = *r.TopK
	}
	s.Temp = max(s.Temp, 0)
	s.Seed = rand.Uint64()
	if r.Seed != nil {
		s.Seed = *r.Seed
	}
	if err := s.Validate(); err != nil {
		return &failure{ErrInvalid, err}
	}
	p.Sampling, p.TopLogprobs = s, -1
	if n := r.TopLogprobs; n != nil {
		if *n < 0 || *n > MaxTopLogprobs {
			return invalid(fmt.Sprintf("TopLogprobs %d, want 0 to %d", *n, MaxTopLogprobs))
		}
		p.TopLogprobs = *n
	}
	return nil
}

// constraint returns what holds the answer to the format and to the tools.
func (m *Model) constraint(ctx context.Context, r *Request, prompt *chat.Prompt) (constrain.Constraint, error) {
	calls, err := callRule(r)
	if err != nil {
		return nil, err
	}
	var held constrain.Constraint
	if r.Format != nil || calls != nil {
		f := form.Form{Kind: form.Free}
		if r.Format != nil {
			f = r.Format.form
		}
		a, err := f.Compile(ctx, m.tok, m.vocabulary(), prompt, calls)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if bad := (*form.CallsError)(nil); errors.As(err, &bad) {
				return nil, &failure{ErrInvalid, fmt.Errorf("the tools: %w", err)}
			}
			return nil, &failure{ErrInvalid, fmt.Errorf("the format: %w", err)}
		}
		if a != nil {
			held = a.New(!r.IgnoreEnd)
		}
	}
	if n := r.ReasoningTokens; n != nil && prompt != nil {
		if *n < 0 || *n > math.MaxInt32 {
			return nil, invalid(fmt.Sprintf("ReasoningTokens %d, want at least 0", *n))
		}
		if b := form.Budget(m.tok, prompt, *n, ""); b != nil {
			held = constrain.Bound(held, *b)
		}
	}
	return held, nil
}
