package chat

import "strings"

// tags are the texts between which models think.
var tags = [...]struct{ open, shut string }{
	{"<think>", "</think>"},
	{"[THINK]", "[/THINK]"},
	{"<thinking>", "</thinking>"},
}

// A Splitter parts thoughts from the answer. They come first, between tags, and
// white space around either is dropped. What may be a tag or such space is held
// back.
type Splitter struct {
	open, shut string
	state      splitState
	held       string
	begun      bool // some thoughts were returned
}

type splitState int

const (
	before splitState = iota // nothing but white space so far
	thinking
	between // after the thoughts, only white space so far
	answering
)

// NewSplitter returns a Splitter for a model whose template is source, or nil
// where that knows no thoughts. A prompt may have opened them.
func NewSplitter(source, prompt string) *Splitter {
	for _, t := range tags {
		if !strings.Contains(source, t.open) && !strings.Contains(source, t.shut) {
			continue
		}
		s := &Splitter{open: t.open, shut: t.shut}
		if strings.HasSuffix(strings.TrimRight(prompt, " \n\t"), t.open) {
			s.state = thinking
		}
		return s
	}
	return nil
}

const space = " \n\t\r"

// Write takes a piece of the text and returns what is sure.
func (s *Splitter) Write(piece string) (content, thoughts string) {
	s.held += piece
	switch s.state {
	case before:
		begun := strings.TrimLeft(s.held, space)
		switch {
		case strings.HasPrefix(begun, s.open):
			s.state, s.held = thinking, begun[len(s.open):]
			return s.Write("")
		case strings.HasPrefix(s.open, begun): // which may be empty
			return "", ""
		}
		s.state = answering
		return s.Write("")
	case thinking:
		if i := strings.Index(s.held, s.shut); i >= 0 {
			thoughts = strings.TrimRight(s.held[:i], space)
			s.state, s.held = between, s.held[i+len(s.shut):]
			content, _ = s.Write("")
			return content, s.first(thoughts)
		}
		sure := len(s.held) - partial(s.held, s.shut)
		sure = len(strings.TrimRight(s.held[:sure], space))
		thoughts, s.held = s.held[:sure], s.held[sure:]
		return "", s.first(thoughts)
	case between:
		if s.held = strings.TrimLeft(s.held, space); s.held == "" {
			return "", ""
		}
		s.state = answering
	}
	content, s.held = s.held, ""
	return content, ""
}

// first drops the white space with which thoughts begin.
func (s *Splitter) first(thoughts string) string {
	if !s.begun {
		thoughts = strings.TrimLeft(thoughts, space)
		s.begun = thoughts != ""
	}
	return thoughts
}

// Flush returns what was held back, when the text has ended.
func (s *Splitter) Flush() (content, thoughts string) {
	switch s.state {
	case before:
		content = s.held
	case thinking:
		thoughts = s.first(strings.TrimRight(s.held, space))
	}
	s.held = ""
	return content, thoughts
}

// partial is how long a beginning of tag the text ends with.
func partial(text, tag string) int {
	for n := min(len(tag)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
