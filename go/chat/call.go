package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
)

// A Tool is a function that the model may call.
type Tool struct {
	Name       string
	Parameters json.RawMessage // the schema of its arguments; nil: any object
	Strict     bool            // the arguments must be as the schema says

	input *grammar.Grammar // of CallRule.Inputs
}

// readTool reads a tool as requests have it.
func readTool(raw json.RawMessage) (t Tool, ok bool) {
	var in struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Strict     bool            `json:"strict"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &in) != nil || in.Function.Name == "" {
		return Tool{}, false
	}
	f := in.Function
	if string(f.Parameters) == "null" {
		f.Parameters = nil
	}
	return Tool{Name: f.Name, Parameters: f.Parameters, Strict: f.Strict}, true
}

// A syntax is how the models of a family write calls.
type syntax struct {
	begin, end string   // around all calls of a reply; empty: none
	open, shut string   // around each of them; empty: none
	tokens     []string // of which marks are made, where these are several
	bare       bool     // a call may begin without a mark, where content or another call would
	form       form
	id         func() string // makes the id of a call that has none; nil: randomID
}

// A form is how a call is written between the marks.
type form interface {
	// parse returns the parser of a call, or of a list of calls.
	parse(p *caller, then cont) cont
	// marks returns the texts in it that may be control tokens.
	marks() []string
	// expr returns the calls of a tool, each on its own. It is an error if the tool is strict
	// and its schema cannot be a grammar.
	expr(l *language, t *Tool) (grammar.Expr, error)
}

// marks returns all texts that may be control tokens.
func (s *syntax) marks() []string {
	if s == nil {
		return nil
	}
	return slices.Concat([]string{s.begin, s.end, s.open, s.shut}, s.tokens, s.form.marks())
}

// starts returns the marks with which calls begin.
func (s *syntax) starts() (marks []string) {
	for _, m := range []string{s.begin, s.open} {
		if m != "" {
			marks = append(marks, m)
		}
	}
	return marks
}

// A step takes a byte and returns what takes the next, or nil if the byte cannot come
// here. It is used once.
type step func(c byte) step

// A cont is what follows a part of a call that is complete: it returns the first step of
// the next.
type cont func() step

// A caller parses the calls of a reply byte by byte, so that how the text is cut makes no
// difference.
type caller struct {
	syntax *syntax
	tools  []Tool
	known  bool // a call of anything but the tools is none
	next   step
	done   bool   // the calls have ended
	raw    []byte // text that is not part of a call yet, and content if it turns out to be none
	index  int    // of the call
	begun  bool   // the call has a name
	called string // which is this
	argued bool   // and arguments
	args   []byte // that are not in out yet
	out    []CallPart
}

// calls returns the parser of the calls that begin with a mark, which was taken. The first
// has an index.
func (s *syntax) calls(mark string, tools []Tool, index int) *caller {
	p := &caller{syntax: s, tools: tools, index: index, raw: []byte(mark), known: mark == ""}
	each := s.form.parse(p, p.mark(s.shut, p.shut))
	if mark == s.begin && mark != "" {
		each = p.mark(s.open, each)
	}
	p.next = each()
	return p
}

// shut follows the end of a call.
func (p *caller) shut() step {
	p.settle()
	s := p.syntax
	switch {
	case s.begin == "":
		return p.end()
	case s.open == "":
		return space(func(c byte) step {
			if c == s.end[0] {
				return p.either(branch{s.end, p.end})(c)
			}
			return s.form.parse(p, p.mark(s.shut, p.shut))()(c)
		})
	}
	return p.either(branch{s.end, p.end}, branch{s.open, s.form.parse(p, p.mark(s.shut, p.shut))})
}

// end follows the last call.
func (p *caller) end() step {
	p.settle()
	p.done = true
	return func(byte) step { return nil }
}

// write takes a byte. If it returns false, the byte cannot be part of a call: raw is the
// text before it from where one may have begun.
func (p *caller) write(c byte) bool {
	p.raw = append(p.raw, c)
	if p.next = p.next(c); p.next == nil {
		p.raw = p.raw[:max(len(p.raw)-1, 0)]
	}
	return p.next != nil
}

// name says what is called. It returns false if that cannot be.
func (p *caller) name(name, id string) bool {
	if p.begun || name == "" || len(name) > maxName || strings.ContainsAny(name, whiteSpace+"\"<>{}") {
		return false
	}
	if p.known && p.tool(name) == nil {
		return false
	}
	switch {
	case id != "":
	case p.syntax.id != nil:
		id = p.syntax.id()
	default:
		id = randomID()
	}
	p.begun, p.called = true, name
	p.settle()
	p.out = append(p.out, CallPart{Index: p.index, ID: id, Name: name})
	return true
}

const maxName = 256

// tool returns the tool of a name, or nil.
func (p *caller) tool(name string) *Tool {
	i := slices.IndexFunc(p.tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &p.tools[i]
}

// loose reports whether raw is text and not what is left of a call, where the text has ended.
func (p *caller) loose() bool {
	left := strings.TrimSpace(string(p.raw))
	return !p.begun && !strings.HasPrefix(p.syntax.shut, left) && !strings.HasPrefix(p.syntax.end, left)
}

// argue adds to the arguments.
func (p *caller) argue(text ...byte) {
	p.args = append(p.args, text...)
	p.argued = true
	if p.begun {
		p.settle()
	}
}

// flush moves the arguments of a call that has a name to out.
func (p *caller) flush() {
	if p.begun && len(p.args) > 0 {
		p.out = append(p.out, CallPart{Index: p.index, Arguments: string(p.args)})
		p.args = p.args[:0]
	}
}

// finish ends a call. It returns false if there was none.
func (p *caller) finish() bool {
	if !p.begun {
		return false
	}
	if !p.argued {
		p.argue('{', '}')
	}
	p.flush()
	p.settle()
	p.begun, p.argued = false, false
	p.index++
	return true
}

// finishing returns a cont that ends the call first.
func (p *caller) finishing(then cont) cont {
	return func() step {
		if !p.finish() {
			return nil
		}
		return then()
	}
}

// settle records that the text so far is part of calls.
func (p *caller) settle() { p.raw = p.raw[:0] }

// space skips white space before a step.
func space(then step) step {
	if then == nil {
		return nil
	}
	var s step
	s = func(c byte) step {
		if isSpace(c) {
			return s
		}
		return then(c)
	}
	return s
}

func isSpace(c byte) bool { return strings.IndexByte(whiteSpace, c) >= 0 }

// mark takes a text, after white space. It is nothing where the text is empty.
func (p *caller) mark(text string, then cont) cont {
	if text == "" {
		return then
	}
	return func() step { return p.either(branch{text, then}) }
}

// A branch is what may come next. None of several begins with another.
type branch struct {
	text string
	then cont
}

// either takes one of several texts, after white space.
func (p *caller) either(branches ...branch) step {
	n := 0
	var s step
	s = func(c byte) step {
		left := branches[:0:0]
		for _, b := range branches {
			if b.text[n] == c {
				left = append(left, b)
			}
		}
		n++
		switch {
		case len(left) == 0:
			return nil
		case len(left[0].text) == n:
			return left[0].then()
		}
		branches = left
		return s
	}
	return space(s)
}

// begins takes then after a text, and other where the text is another.
func begins(text string, then, other step) step {
	n := 0
	var s step
	s = func(c byte) step {
		if text[n] != c {
			next := other
			for i := 0; i < n && next != nil; i++ {
				next = next(text[i])
			}
			if next == nil {
				return nil
			}
			return next(c)
		}
		if n++; n == len(text) {
			return then
		}
		return s
	}
	return s
}

// until gives take the text up to a mark, which take refuses by false.
func until(mark string, take func(text []byte) bool, then cont) step {
	var held []byte
	var s step
	s = func(c byte) step {
		held = append(held, c)
		if strings.HasSuffix(string(held), mark) {
			if !take(held[:len(held)-len(mark)]) {
				return nil
			}
			return then()
		}
		n := len(held) - len(partial(string(held), mark))
		if n > 0 && !take(held[:n]) {
			return nil
		}
		held = append(held[:0], held[n:]...)
		return s
	}
	return s
}
