package chat

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Delta is what some text adds to a reply. It is of one kind: the other fields
// are empty.
type Delta struct {
	Content   string    // what the model says to the user
	Reasoning string    // what it thinks before that
	Call      *CallPart // part of a call of a tool
}

// A CallPart is part of a call of a tool. The first of a call has its id and its name, and
// the arguments of all of them together are the JSON of an object, or the beginning of it
// where the text ended or went wrong within them.
type CallPart struct {
	Index     int // among the calls of a reply
	ID, Name  string
	Arguments string
}

// A style is how the models of a family mark the parts of a reply.
type style struct {
	open, shut string   // around the reasoning, which comes first
	dropped    []string // around the content, and no part of it
	tokens     []string // of which marks are made, where these are several
	tells      string   // what tells it from the source of a template, where the marks do not
}

var styles = [...]style{
	{open: "<think>", shut: "</think>"},
	{open: "[THINK]", shut: "[/THINK]"},
	{open: "<seed:think>", shut: "</seed:think>"},
	{open: "<|channel>thought", shut: "<channel|>"},
	{open: "<|START_THINKING|>", shut: "<|END_THINKING|>", dropped: []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
	{open: "<thinking>", shut: "</thinking>"},
	{open: "<mm:think>", shut: "</mm:think>"},
	{open: "<|inner_prefix|>", shut: "<|inner_suffix|>"},
	{
		open: "<|think|>", shut: "<|end|>", tokens: []string{"<|begin|>"}, tells: "<|tool_call:begin|>",
		dropped: []string{"<|begin|>assistant", "<|content|>", "<|end|>"},
	},
	{open: "<think:opensource>", shut: "</think:opensource>", tells: "{%- set HYTK = ':opensource' %}"},
	{
		open: "<|open|>think<|sep|>", shut: "<|close|>think<|sep|>", tokens: []string{"<|open|>", "<|close|>", "<|sep|>"}, tells: "<|end_of_msg|>",
		dropped: []string{"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"},
	},
}

// styleOf returns the style of the models that a template is for, or nil where
// all of a reply is content.
func styleOf(source string) *style {
	for i := range styles {
		s := &styles[i]
		has := strings.Contains(source, s.open) || strings.Contains(source, s.shut)
		if s.tells != "" {
			has = strings.Contains(source, s.tells)
		}
		if has {
			return s
		}
	}
	return nil
}

// marks returns the texts that a Reply looks for.
func (s *style) marks() []string {
	if s == nil {
		return nil
	}
	return slices.Concat([]string{s.open, s.shut}, s.dropped, s.tokens)
}

// opened returns reasoning that has not ended as a model writes it.
func (s *style) opened(reasoning string) string {
	if s == nil {
		return reasoning
	}
	return s.open + reasoning
}

// A Reply parses what a model generates after a Prompt. The result does not
// depend on how the text is split into pieces. A possible prefix of a mark is held
// back, and so is white space around the reasoning and calls, which is dropped. Calls are parsed
// where the prompt has tools; what begins as one and is none is content.
type Reply struct {
	style   *style  // nil: there is no reasoning
	syntax  *syntax // nil: there are no calls
	tools   []Tool
	state   replyState
	caller  *caller  // of the calls that have begun
	harmony *harmony // the channels of gpt-oss, in place of all other marks; nil: none
	calls   int      // that have ended
	held    string   // a possible prefix of a mark
	space   []byte   // white space that is dropped unless more of the same part follows
	keep    bool     // the reasoning is content
	trim    bool     // the space before the content is dropped
	once    bool     // the reasoning has ended: there is no second
	some    bool     // part of the reasoning was returned
	out     []Delta
}

type replyState int

const (
	beginning replyState = iota // white space only, before the content or the reasoning
	reasoning
	answering
	calling
)

// Thinking reports whether the text so far ends within the reasoning.
func (r *Reply) Thinking() bool {
	if r.harmony != nil {
		return r.harmony.text && r.harmony.kind == toSelf
	}
	return r.state == reasoning
}

// Calling reports whether the text so far ends within what may be a call.
func (r *Reply) Calling() bool {
	if r.harmony != nil {
		return r.harmony.text && r.harmony.kind == toTool
	}
	return r.state == calling
}

// KeepReasoning leaves the reasoning and its marks in the content. It comes before Write.
func (r *Reply) KeepReasoning() {
	if r.style != nil && r.state == reasoning {
		r.state = beginning
	}
	r.style, r.trim, r.keep = nil, false, true
}

// after sets the state at the end of a prompt, which may open the reasoning, or
// close it as empty. Where the prompt ends inside an assistant message, begun is
// what the model would have written of that message.
func (r *Reply) after(prompt, begun string) {
	end := strings.TrimRight(prompt, whiteSpace)
	switch {
	case r.harmony != nil:
		r.harmony.after(prompt)
	case begun != "":
		r.Write(begun)
		r.held, r.space = "", nil // belongs to the prompt
	case r.syntax != nil && r.syntax.open != "" && strings.HasSuffix(end, r.syntax.open):
		r.ring(r.syntax.open) // the prompt begins what may be a call
		r.caller.settle()
	case r.style == nil:
	case strings.HasSuffix(end, r.style.open):
		r.state = reasoning
	case strings.HasSuffix(end, r.style.shut):
		r.trim = true
	}
}

const whiteSpace = " \n\t\r"

// Write takes the next piece of the text and returns what it settles, in order.
func (r *Reply) Write(text string) []Delta {
	if r.harmony != nil {
		r.harmony.write(r, text)
		return r.take()
	}
	text, r.held = r.held+text, ""
	for text != "" {
		switch r.state {
		case calling:
			text = r.call(text)
		case answering:
			text = r.answer(text)
		case reasoning:
			text = r.reason(text)
		default:
			text = r.begin(text)
		}
	}
	return r.take()
}

// Close returns what was held back, when the text has ended.
func (r *Reply) Close() []Delta {
	if r.harmony != nil {
		r.harmony.close(r)
		return r.take()
	}
	switch r.state {
	case beginning:
		r.say(r.held)
	case reasoning:
		r.think(r.held)
	case answering:
		r.add(Delta{Content: string(r.space) + r.held})
	case calling:
		r.hear()
		if r.caller.loose() {
			r.say(string(r.caller.raw))
		}
		r.caller = nil
	}
	r.held = ""
	return r.take()
}

func (r *Reply) take() []Delta {
	out := r.out
	r.out = nil
	return out
}

func (r *Reply) add(d Delta) {
	last := len(r.out) - 1
	switch {
	case d == Delta{}:
	case last >= 0 && d.Call == nil && r.out[last].Call == nil && (r.out[last].Content == "") == (d.Content == ""):
		r.out[last].Content += d.Content
		r.out[last].Reasoning += d.Reasoning
	default:
		r.out = append(r.out, d)
	}
}

// begin takes text before the content, up to where it is known whether
// reasoning or a call comes first. Like answer, reason and call, it returns the text that is left.
func (r *Reply) begin(text string) string {
	word := strings.TrimLeft(text, whiteSpace)
	r.space = append(r.space, text[:len(text)-len(word)]...)
	switch {
	case word == "":
		return ""
	case r.style == nil || r.once:
	case strings.HasPrefix(word, r.style.open):
		r.state, r.space = reasoning, nil
		return word[len(r.style.open):]
	case strings.HasPrefix(r.style.open, word):
		r.held = word
		return ""
	}
	if r.syntax != nil {
		if r.syntax.bare && word[0] == '{' {
			r.ring("")
			return word
		}
		for _, mark := range r.syntax.starts() {
			switch {
			case strings.HasPrefix(word, mark):
				r.ring(mark)
				return word[len(mark):]
			case strings.HasPrefix(mark, word):
				r.held = word
			}
		}
		if r.held != "" {
			return ""
		}
	}
	r.state = answering
	r.say("")
	return word
}

// say adds text to the content, after the space before it.
func (r *Reply) say(text string) {
	if !r.trim {
		text = string(r.space) + text
	}
	r.space, r.trim = nil, false
	r.add(Delta{Content: text})
}

// reason takes text of the reasoning.
func (r *Reply) reason(text string) string {
	before, rest, ended := strings.Cut(text, r.style.shut)
	if !ended {
		r.held = partial(text, r.style.shut)
		r.think(text[:len(text)-len(r.held)])
		return ""
	}
	r.think(before)
	r.state, r.space, r.once, r.trim = beginning, nil, true, true
	return rest
}

// think adds text to the reasoning, without the space around it.
func (r *Reply) think(text string) {
	words := strings.TrimRight(text, whiteSpace)
	after := text[len(words):]
	if words != "" {
		if !r.some {
			words, r.space, r.some = strings.TrimLeft(words, whiteSpace), nil, true
		}
		r.add(Delta{Reasoning: string(r.space) + words})
		r.space = r.space[:0]
	}
	r.space = append(r.space, after...)
}

// answer takes text of the content, of which white space before a call is no part.
func (r *Reply) answer(text string) string {
	at, mark := len(text), ""
	find := func(marks []string) bool {
		found := false
		for _, m := range marks {
			if i := strings.Index(text[:min(at+len(m)-1, len(text))], m); i >= 0 && i < at {
				at, mark, found = i, m, true
			} else if p := partial(text, m); len(p) > len(r.held) {
				r.held = p
			}
		}
		return found
	}
	called := false
	if r.style != nil {
		find(r.style.dropped)
	}
	if r.syntax != nil {
		called = find(r.syntax.starts())
	}
	if mark != "" {
		r.held = ""
	}
	words := text[:min(at, len(text)-len(r.held))]
	if r.syntax != nil {
		whole := string(r.space) + words
		words = strings.TrimRight(whole, whiteSpace)
		r.space = []byte(whole[len(words):])
	}
	r.add(Delta{Content: words})
	switch {
	case mark == "":
		return ""
	case called:
		r.ring(mark)
	}
	return text[at+len(mark):]
}

// ring begins calls, whose mark was taken.
func (r *Reply) ring(mark string) {
	r.state = calling
	r.caller = r.syntax.calls(mark, r.tools, r.calls)
}

// call takes text of calls.
func (r *Reply) call(text string) string {
	for i := range len(text) {
		ok := r.caller.write(text[i])
		if ok && !r.caller.done {
			continue
		}
		r.hear()
		raw := r.caller.raw
		calls := r.caller.index
		some := calls > r.calls
		r.calls, r.caller = calls, nil
		if ok { // more calls may follow
			r.state, r.space, r.trim, r.once = beginning, nil, true, true
			return text[i+1:]
		}
		for ; i > 0 && len(raw) > 0 && !utf8.RuneStart(text[i]); i-- {
			raw = raw[:len(raw)-1]
		}
		if some {
			r.space = nil
		}
		r.state = answering
		r.say(string(raw))
		return text[i:]
	}
	r.hear()
	return ""
}

// hear takes what the caller has.
func (r *Reply) hear() {
	r.caller.flush()
	for _, part := range r.caller.out {
		r.out = append(r.out, Delta{Call: &part})
	}
	r.caller.out = nil
}

// partial returns the longest beginning of mark that text ends with.
func partial(text, mark string) string {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return mark[:n]
		}
	}
	return ""
}
