package chat

import "strings"

// harmony parses the replies of gpt-oss: messages, each of which has a channel, and goes to
// the user or to a tool:
//
//	<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...
//	<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>
type harmony struct {
	text bool // within the text of a message, or else before it
	kind messageKind
	held string // the head so far, or the beginning of a mark
	next step   // of a call
	done bool   // the call has all arguments
}

type messageKind int

const (
	toUser messageKind = iota
	toSelf
	toTool
)

const messageMark = "<|message|>"

// ends are what texts of messages end with.
var harmonyEnds = []string{"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>", "<|eom|>", "<|eot|>"}

var harmonyMarks = append([]string{messageMark, "<|constrain|>"}, harmonyEnds...)

// maxHead is the maximum length of what comes before the text of a message.
const maxHead = 1024

// after takes the prompt from where it begins the last message.
func (h *harmony) after(prompt string) {
	if i := strings.LastIndex(prompt, "<|start|>"); i >= 0 {
		var r Reply
		h.write(&r, prompt[i:])
	}
}

func (h *harmony) write(r *Reply, text string) {
	text, h.held = h.held+text, ""
	for text != "" {
		if h.text {
			text = h.body(r, text)
		} else {
			text = h.head(r, text)
		}
	}
	h.hear(r)
}

// head takes what comes before the text of a message, and returns what is left.
func (h *harmony) head(r *Reply, text string) string {
	head, rest, found := strings.Cut(text, messageMark)
	switch {
	case !found && h.plausible(strings.TrimSuffix(text, partial(text, messageMark))):
		h.held = text
		return ""
	case !found || !h.plausible(head):
		h.text, h.kind = true, toUser
		return text
	}
	h.text, h.kind, h.done = true, toUser, false
	to, channel := after(head, "to="), after(head, "<|channel|>")
	name := strings.TrimPrefix(to, "functions.")
	switch {
	case to != "" && to != "self" && to != "user" && to != "assistant" && len(r.tools) > 0 && (name != to || channel == "commentary"):
		p := &caller{syntax: r.syntax, tools: r.tools, index: r.calls}
		if p.name(name, "") {
			h.kind, r.caller = toTool, p
			h.next = value(p.argue, func() step {
				h.done = true
				return nil
			})
		}
	case channel == "analysis" || to == "self":
		h.kind = toSelf
	}
	return rest
}

// after returns the word after a mark in a head.
func after(head, mark string) string {
	_, word, _ := strings.Cut(head, mark)
	if i := strings.IndexAny(word, whiteSpace+"<"); i >= 0 {
		word = word[:i]
	}
	return word
}

// plausible reports whether a text may be the head of a message.
func (h *harmony) plausible(text string) bool {
	text = strings.TrimLeft(text, whiteSpace)
	for _, begin := range []string{"<|start|>", "<|channel|>", "<|constrain|>", messageMark, "to=", "assistant", "commentary", "analysis", "final"} {
		if strings.HasPrefix(text, begin) || strings.HasPrefix(begin, text) {
			return len(text) < maxHead
		}
	}
	return false
}

// body takes the text of a message, and returns what is left.
func (h *harmony) body(r *Reply, text string) string {
	at, mark := len(text), ""
	for _, m := range harmonyEnds {
		if i := strings.Index(text, m); i >= 0 && i < at {
			at, mark = i, m
		}
	}
	if mark == "" {
		for _, m := range harmonyEnds {
			if p := partial(text, m); len(p) > len(h.held) {
				h.held = p
			}
		}
	}
	h.add(r, text[:at-len(h.held)])
	if mark == "" {
		return ""
	}
	h.end(r)
	if mark == "<|start|>" || mark == "<|channel|>" {
		return text[at:]
	}
	return text[at+len(mark):]
}

// add adds text of the message to the reply.
func (h *harmony) add(r *Reply, text string) {
	switch {
	case h.kind == toSelf && !r.keep:
		r.add(Delta{Reasoning: text})
		return
	case h.kind != toTool:
		r.add(Delta{Content: text})
		return
	}
	for i := range len(text) {
		switch {
		case h.done && isSpace(text[i]):
			continue
		case !h.done:
			if h.next = h.next(text[i]); h.next != nil || h.done {
				continue
			}
		}
		h.hear(r)
		h.kind = toUser
		r.calls++ // what was heard of it stays a call
		r.add(Delta{Content: text[i:]})
		return
	}
}

// hear takes what is parsed of a call.
func (h *harmony) hear(r *Reply) {
	if h.kind == toTool && h.text {
		r.hear()
	}
}

// end ends the message.
func (h *harmony) end(r *Reply) {
	if h.kind == toTool {
		r.caller.finish()
		r.hear()
		r.calls++
	}
	h.text, h.kind = false, toUser
}

// close ends the reply.
func (h *harmony) close(r *Reply) {
	if h.text {
		h.add(r, h.held)
	} else if !strings.HasPrefix("<|start|>assistant", h.held) && !strings.HasPrefix(strings.TrimLeft(h.held, whiteSpace), "<|") {
		r.add(Delta{Content: h.held})
	}
	if h.kind == toTool && !r.caller.argued {
		r.caller.finish() // the token that ends a call is no text
	}
	h.hear(r)
	h.held = ""
}
