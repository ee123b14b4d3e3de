// Package chat renders conversations to prompts, by the chat template that comes
// with the model, and parses replies into content and reasoning.
//
// A template is Jinja, run by go/internal/jinja, with the variables that
// llama-server gives it and the functions of Hugging Face's transformers. It
// comes with a model file and is not trusted: it reaches nothing but the
// conversation, and has limits on its work, its memory and its recursion.
//
// The text of a prompt may begin with the BOS token, as most templates write
// it, or not; the builtin ones do not. Tokenizing it adds BOS where the model
// requires it and the text lacks it.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/internal/jinja"
)

// A rendering has least, and more for each byte of the conversation, up to limits, whose steps take about two seconds
// of a core. Published templates make less than 6 bytes of one.
var (
	least  = jinja.Limits{Steps: 2e6, Bytes: 16 << 20}
	each   = jinja.Limits{Steps: 100, Bytes: 100}
	limits = jinja.Limits{Steps: 20e6, Bytes: 256 << 20}
)

// longest is how long a rendering may take.
const longest = 20 * time.Second

// RequestError is a conversation that cannot be rendered: the client's
// mistake, or one that the template refuses with raise_exception. Any other
// error of Render is the template's.
type RequestError struct{ message string }

func (e *RequestError) Error() string { return e.message }

func badRequest(format string, args ...any) error {
	return &RequestError{fmt.Sprintf(format, args...)}
}

// SpecialTokens are the texts of tokens that templates write.
type SpecialTokens struct{ BOS, EOS string }

// Template is a parsed chat template. Several goroutines may render it.
type Template struct {
	jinja  *jinja.Template
	source string
	tokens SpecialTokens
	caps   Caps
	style  *style
	syntax *syntax
	// functions: it shows tools by the variable functions, a text, and not by tools.
	functions bool
	// trusting: prompts have no Literal.
	trusting bool
	// noNull: null content becomes an empty string, since the template would print it.
	noNull  bool
	probing *probing // nil when they are done
}

// What tells templates that show tools by the variable functions only, and take it to be there.
var (
	readsFunctions = regexp.MustCompile(`\bfunctions\b`)
	readsOthers    = regexp.MustCompile(`\btools\b|\bfunctions\s+is\s`)
)

// Parse parses a chat template and probes its capabilities by rendering.
func Parse(source string, tokens SpecialTokens) (*Template, error) {
	parsed, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	t := &Template{jinja: parsed, source: source, tokens: tokens, style: styleOf(source), syntax: syntaxOf(source)}
	t.functions = readsFunctions.MatchString(source) && !readsOthers.MatchString(source)
	t.probe()
	return t, nil
}

// Trust has texts of conversations count as the template's own: prompts have no Literal, so that control tokens in
// messages are control tokens.
func (t *Template) Trust() { t.trusting = true }

// Source returns the text of the template.
func (t *Template) Source() string { return t.source }

// Caps returns the capabilities of the template.
func (t *Template) Caps() Caps { return t.caps }

// Input is a conversation and how to render it.
type Input struct {
	Messages []Message
	Tools    []json.RawMessage // as in a request: {"type": "function", "function": {...}}
	// AddGenerationPrompt ends the prompt with the header of an assistant message.
	AddGenerationPrompt bool
	// ContinueFinalMessage ends the prompt inside the last message, which is an
	// assistant message, so that the model continues it.
	ContinueFinalMessage bool
	ReasoningEffort      string                     // such as low or high; "" leaves it to the template
	Kwargs               map[string]json.RawMessage // more variables: chat_template_kwargs
	Now                  time.Time                  // for dates; zero is now
	Until                context.Context            // whose end ends Render with its error; nil: there is none
}

// A Prompt is a rendered conversation.
type Prompt struct {
	Text string
	// Literal are the ranges of Text that come from the conversation, not from the template, in order. What looks like a
	// control token there is text.
	Literal [][2]int
	Media   []Placed // in the order of their places

	begun string // what of the reply the text ends with, where that is not only marks
	reply Reply  // the parser, before the text
}

// Reply returns a parser for one reply to the prompt.
func (p Prompt) Reply() *Reply {
	r := p.reply
	if r.harmony != nil {
		r.harmony = &harmony{}
	}
	r.after(p.Text, p.begun)
	return &r
}

// Marks returns the texts of the tokens that mark the parts of a reply. Some are
// control tokens, which a tokenizer does not print by default; a Reply needs them.
func (p Prompt) Marks() []string {
	if p.reply.harmony != nil {
		return harmonyMarks
	}
	return append(p.reply.style.marks(), p.reply.syntax.marks()...)
}

// Render makes the prompt.
func (t *Template) Render(in Input) (Prompt, error) {
	if len(in.Messages) == 0 {
		return Prompt{}, badRequest("messages is empty")
	}
	media := in.mark()
	final, begun := "", "" // what the prompt ends with, and what of the reply that is
	if in.ContinueFinalMessage {
		last := len(in.Messages) - 1
		m := in.Messages[last]
		if m.Role != "assistant" || in.AddGenerationPrompt {
			return Prompt{}, badRequest("to continue the final message, that must be the assistant's, and without a generation prompt")
		}
		switch {
		case !blank(m.Content.String()):
			m.Content = m.Content.paragraphs()
			in.Messages = append(slices.Clone(in.Messages[:last]), m)
			final = m.Content.String()
			begun = final
		case !blank(m.ReasoningContent):
			final = m.ReasoningContent
			begun = t.style.opened(final)
		default: // to continue an empty message is to begin one
			in.Messages, in.AddGenerationPrompt = in.Messages[:last], true
		}
	}
	tools := in.Tools
	if len(tools) > 0 && !t.caps.Tools {
		in.Messages = t.describe(in.Messages, tools)
	}
	if !t.caps.ToolCalls {
		in.Messages = t.tell(in.Messages)
	}
	text, literal, err := t.prompt(in)
	if err == nil && final != "" {
		text, err = upTo(text, final)
		literal = clipRanges(literal, len(text))
	}
	if err != nil {
		return Prompt{}, err
	}
	p := Prompt{Text: text, Literal: literal, begun: media.unmarked(begun), reply: Reply{style: t.style}}
	if err := media.place(&p); err != nil {
		return Prompt{}, err
	}
	if t.trusting {
		p.Literal = nil
	}
	if t.syntax == &harmonic {
		p.reply.style, p.reply.harmony = nil, &harmony{}
	}
	if len(tools) > 0 {
		if p.reply.syntax = t.syntax; !t.caps.Tools && t.syntax != &harmonic {
			p.reply.syntax = t.asText()
		}
		for _, raw := range tools {
			if tool, ok := readTool(raw); ok {
				p.reply.tools = append(p.reply.tools, tool)
			}
		}
	}
	return p, nil
}

// limits returns those of a rendering.
func (in *Input) limits() jinja.Limits {
	const item = 64 // bytes that each message, call, tool and variable counts for, beside its text
	n := 0
	for i := range in.Messages {
		m := &in.Messages[i]
		n += item + len(m.Content.String()) + len(m.ReasoningContent) + len(m.Name)
		for _, c := range m.ToolCalls {
			n += item + len(c.Function.Name) + len(c.Function.Arguments)
		}
	}
	for _, raw := range in.Tools {
		n += item + len(raw)
	}
	for name, raw := range in.Kwargs {
		n += item + len(name) + len(raw)
	}
	n = min(n, limits.Bytes) // and no product is too large
	return jinja.Limits{Steps: min(least.Steps+each.Steps*n, limits.Steps), Bytes: min(least.Bytes+each.Bytes*n, limits.Bytes)}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// clipRanges returns what is of ranges in the first n bytes.
func clipRanges(ranges [][2]int, n int) [][2]int {
	for i := range ranges {
		if ranges[i][0] >= n {
			return ranges[:i]
		}
		ranges[i][1] = min(ranges[i][1], n)
	}
	return ranges
}

// prompt renders all messages, and returns the ranges of the text that are from the conversation.
func (t *Template) prompt(in Input) (string, [][2]int, error) {
	vars := map[string]any{}
	for name, raw := range in.Kwargs {
		v, err := jinja.FromJSON(raw)
		if err != nil {
			return "", nil, badRequest("chat_template_kwargs.%s: %v", name, err)
		}
		vars[name] = v
	}
	messages, err := t.messages(in.Messages)
	if err != nil {
		return "", nil, err
	}
	if len(in.Tools) > 0 {
		l := &jinja.List{}
		for i, raw := range in.Tools {
			v, err := jinja.FromJSON(raw)
			if err != nil {
				return "", nil, badRequest("tools[%d]: %v", i, err)
			}
			l.Items = append(l.Items, v)
		}
		vars["tools"] = l
	}
	vars["messages"] = messages
	vars["add_generation_prompt"] = in.AddGenerationPrompt
	if in.ReasoningEffort != "" {
		vars["reasoning_effort"] = jinja.Outside(in.ReasoningEffort)
	}
	until := in.Until
	if until == nil {
		until = context.Background()
	}
	until, cancel := context.WithTimeout(until, longest)
	defer cancel()
	left := in.limits()
	return t.run(until, vars, in.Now, &left)
}

// mostRefusal is how many bytes of a template's own message are passed on.
const mostRefusal = 1000

// run renders with these variables and those that every template has.
func (t *Template) run(until context.Context, vars map[string]any, now time.Time, limits *jinja.Limits) (string, [][2]int, error) {
	if now.IsZero() {
		now = time.Now()
	}
	vars["bos_token"], vars["eos_token"] = t.tokens.BOS, t.tokens.EOS
	for name, v := range map[string]any{
		"date_string": strftime(now, "%d %b %Y"), "datetime": strftime(now, "%b %d %Y"), "enable_thinking": true,
	} {
		if _, given := vars[name]; !given {
			vars[name] = v
		}
	}
	if _, given := vars["functions"]; t.functions && !given {
		vars["functions"] = "" // tools are described in a message
	}
	vars["raise_exception"] = jinja.Func(func(args []any) (any, error) {
		if message, ok := oneString(args); ok {
			if len(message) > mostRefusal {
				message = strings.ToValidUTF8(message[:mostRefusal], "") + "..."
			}
			return nil, badRequest("the model's chat template refuses the conversation: %s", message)
		}
		return nil, errors.New("raise_exception wants one text")
	})
	vars["strftime_now"] = jinja.Func(func(args []any) (any, error) {
		if format, ok := oneString(args); ok && len(format) < 1000 {
			return strftime(now, format), nil
		}
		return nil, errors.New("strftime_now wants one format, of less than 1000 bytes")
	})
	text, outside, err := t.jinja.Render(until, vars, limits)
	var refused *RequestError
	switch {
	case errors.As(err, &refused):
		return "", nil, refused
	case err != nil:
		return "", nil, fmt.Errorf("chat template: %w", err)
	}
	return text, outside, nil
}

func oneString(args []any) (string, bool) {
	if len(args) != 1 {
		return "", false
	}
	s, ok := args[0].(string)
	return s, ok
}

// upTo cuts a prompt after a text of the final message. The template may
// have trimmed that, and written an end of turn after it.
func upTo(prompt, final string) (string, error) {
	trimmed := strings.TrimSpace(final)
	i := strings.LastIndex(prompt, trimmed)
	if i < 0 {
		return "", badRequest("the final message cannot be continued: the model's chat template changes its text")
	}
	if whole := strings.TrimLeft(final, " \t\n\r"); strings.HasPrefix(prompt[i:], whole) {
		return prompt[:i+len(whole)], nil
	}
	return prompt[:i+len(trimmed)], nil
}
