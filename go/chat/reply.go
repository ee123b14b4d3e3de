package chat

import "strings"

// A Delta is what some text adds to a reply. It is of one kind: the other fields
// are empty.
type Delta struct {
	Content   string    // what the model says to the user
	Reasoning string    // what it thinks before that
	Call      *CallPart // part of a call of a tool
}

// A CallPart is part of a call of a tool. The first of a call has its id and its name, and
// the arguments of all of them together are the JSON of an object.
type CallPart struct {
	Index     int // among the calls of a reply
	ID, Name  string
	Arguments string
}

// A style is how the models of a family mark the parts of a reply.
type style struct {
	open, shut string   // around the reasoning, which comes first
	dropped    []string // around the content, and no part of it
}

var styles = [...]style{
	{open: "<think>", shut: "</think>"},
	{open: "[THINK]", shut: "[/THINK]"},
	{open: "<seed:think>", shut: "</seed:think>"},
	{open: "<|channel>thought", shut: "<channel|>"},
	{open: "<|START_THINKING|>", shut: "<|END_THINKING|>", dropped: []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
	{open: "<thinking>", shut: "</thinking>"},
}

// styleOf returns the style of the models that a template is for, or nil where
// all of a reply is content.
func styleOf(source string) *style {
	for i := range styles {
		if s := &styles[i]; strings.Contains(source, s.open) || strings.Contains(source, s.shut) {
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
	return append([]string{s.open, s.shut}, s.dropped...)
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
// back, and so is white space around the reasoning, which is dropped.
type Reply struct {
	style *style // nil: all is content
	state replyState
	held  string // a possible prefix of a mark
	space []byte // white space that is dropped unless more of the same part follows
	trim  bool   // the space before the content is dropped
	once  bool   // the reasoning has ended: there is no second
	some  bool   // part of the reasoning was returned
	out   []Delta
}

type replyState int

const (
	beginning replyState = iota // white space only, before the content or the reasoning
	reasoning
	answering
)

// after sets the state at the end of a prompt, which may open the reasoning, or
// close it as empty. Where the prompt ends inside an assistant message, begun is
// what the model would have written of that message.
func (r *Reply) after(prompt, begun string) {
	if r.style == nil {
		return
	}
	end := strings.TrimRight(prompt, whiteSpace)
	switch {
	case begun != "":
		r.Write(begun)
		r.held, r.space = "", nil // belongs to the prompt
	case strings.HasSuffix(end, r.style.open):
		r.state = reasoning
	case strings.HasSuffix(end, r.style.shut):
		r.trim = true
	}
}

const whiteSpace = " \n\t\r"

// Write takes the next piece of the text and returns what it settles, in order.
func (r *Reply) Write(text string) []Delta {
	text, r.held = r.held+text, ""
	for text != "" {
		switch {
		case r.style == nil || r.state == answering:
			text = r.answer(text)
		case r.state == reasoning:
			text = r.reason(text)
		default:
			text = r.begin(text)
		}
	}
	return r.take()
}

// Close returns what was held back, when the text has ended.
func (r *Reply) Close() []Delta {
	switch r.state {
	case beginning:
		r.say(r.held)
	case reasoning:
		r.think(r.held)
	case answering:
		r.add(Delta{Content: r.held})
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
	case last >= 0 && (r.out[last].Content == "") == (d.Content == ""):
		r.out[last].Content += d.Content
		r.out[last].Reasoning += d.Reasoning
	default:
		r.out = append(r.out, d)
	}
}

// begin takes text before the content, up to where it is known whether
// reasoning comes first. Like answer and reason, it returns the text that is left.
func (r *Reply) begin(text string) string {
	word := strings.TrimLeft(text, whiteSpace)
	r.space = append(r.space, text[:len(text)-len(word)]...)
	switch {
	case word == "":
		return ""
	case r.once:
	case strings.HasPrefix(word, r.style.open):
		r.state, r.space = reasoning, nil
		return word[len(r.style.open):]
	case strings.HasPrefix(r.style.open, word):
		r.held = word
		return ""
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
	r.space = nil
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

// answer takes text of the content.
func (r *Reply) answer(text string) string {
	if r.style == nil {
		r.add(Delta{Content: text})
		return ""
	}
	at, mark := len(text), ""
	for _, m := range r.style.dropped {
		if i := strings.Index(text[:at], m); i >= 0 {
			at, mark = i, m
		}
	}
	if mark == "" {
		for _, m := range r.style.dropped {
			if p := partial(text, m); len(p) > len(r.held) {
				r.held = p
			}
		}
		r.add(Delta{Content: text[:len(text)-len(r.held)]})
		return ""
	}
	r.add(Delta{Content: text[:at]})
	return text[at+len(mark):]
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
