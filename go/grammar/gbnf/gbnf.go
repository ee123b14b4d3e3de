// Package gbnf reads grammars in GBNF, the notation of llama.cpp.
package gbnf

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// Bounds of a grammar's text.
const (
	MaxBytes       = 4 << 20
	maxNesting     = 500
	maxQuantifiers = 100 // of one part
)

// Parse reads a grammar; its texts are those of the rule "root". Unlike llama.cpp's
// reader it takes rules that begin with themselves and alternatives that begin a line.
// Of several rules with one name the last counts. The name of a token, <name>, is looked
// up with token, which may be nil: then there are none. Reading and compiling the grammar is work, which may be nil.
func Parse(text string, token func(name string) (id int32, ok bool), work *grammar.Work) (*grammar.Grammar, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the grammar has %d bytes, want at most %d", len(text), MaxBytes)
	}
	p := &parser{text: text, token: token, g: &grammar.Grammar{Work: work}, rules: map[string]grammar.Ref{}}
	work.Do(len(text))
	p.ref("root")
	p.space(true)
	for p.at < len(text) && p.err == nil {
		p.rule()
	}
	for i, r := range p.g.Rules {
		switch {
		case p.err != nil:
		case r.Expr == nil && i == 0:
			p.at = len(text)
			p.fail("the grammar has no rule named root")
		case r.Expr == nil:
			p.at = p.first[i]
			p.fail("rule %q is not defined", r.Name)
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.g, nil
}

type parser struct {
	text  string
	at    int
	depth int
	token func(string) (int32, bool)
	g     *grammar.Grammar
	rules map[string]grammar.Ref
	first []int // of each rule: where it is first named
	err   error // the first
}

// fail records an error at the current place, and ends the parsing.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		before := p.text[:p.at]
		line := 1 + strings.Count(before, "\n")
		column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
		p.err = fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
	}
	p.at = len(p.text)
}

// unexpected fails at whatever comes next.
func (p *parser) unexpected(want string) {
	if p.at == len(p.text) {
		p.fail("the grammar ends, want %s", want)
		return
	}
	c, _ := utf8.DecodeRuneInString(p.text[p.at:])
	p.fail("%q, want %s", c, want)
}

func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) take(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

// space skips blanks and comments, and line ends if they may come here.
func (p *parser) space(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '#':
			if n := strings.IndexAny(p.text[p.at:], "\r\n"); n >= 0 {
				p.at += n
			} else {
				p.at = len(p.text)
			}
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.at++
		default:
			return
		}
	}
}

// ref returns the rule with a name, which may be defined later.
func (p *parser) ref(name string) grammar.Ref {
	r, ok := p.rules[name]
	if !ok {
		r = p.g.Add(name, nil)
		p.rules[name] = r
		p.first = append(p.first, p.at)
	}
	return r
}

func (p *parser) name() string {
	start := p.at
	for c := p.peek(); c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'; c = p.peek() {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *parser) rule() {
	start := p.at
	name := p.name()
	if name == "" {
		p.unexpected("the name of a rule")
		return
	}
	after := p.at
	p.at = start
	r := p.ref(name)
	p.at = after
	p.space(false)
	if !p.take("::=") {
		p.unexpected("::=")
		return
	}
	p.space(true)
	e := p.alternatives(false)
	switch p.peek() {
	case '\n', '\r':
	default:
		if p.at < len(p.text) {
			p.unexpected("the end of the line")
		}
	}
	p.g.Rules[r].Expr = e
	p.space(true)
}

// alternatives reads an expression, whose lines may end where it is nested in parentheses.
func (p *parser) alternatives(nested bool) grammar.Expr {
	alt := grammar.Alt{p.sequence(nested)}
	for p.err == nil {
		if !nested { // the next line may go on with an alternative
			at := p.at
			if p.space(true); p.peek() != '|' {
				p.at = at
			}
		}
		if !p.take("|") {
			break
		}
		p.space(true)
		alt = append(alt, p.sequence(nested))
	}
	if len(alt) == 1 {
		return alt[0]
	}
	return alt
}

func (p *parser) sequence(nested bool) grammar.Expr {
	seq := grammar.Seq{}
	for p.err == nil {
		e := p.symbol()
		if e == nil {
			break
		}
		p.space(nested)
		for chain := 0; p.err == nil; chain++ {
			repeated, ok := p.quantified(e)
			if !ok {
				break
			}
			if chain == maxQuantifiers {
				p.fail("more than %d quantifiers one after another", maxQuantifiers)
			}
			e = repeated
			p.space(nested)
		}
		seq = append(seq, e)
	}
	if len(seq) == 1 {
		return seq[0]
	}
	return seq
}

// symbol reads what a quantifier may follow; nil is that there is none.
func (p *parser) symbol() grammar.Expr {
	switch c := p.peek(); {
	case c == '"':
		return p.literal()
	case c == '[':
		return p.class()
	case c == '.':
		p.at++
		return grammar.Any
	case c == '<' || c == '!':
		return p.tokens()
	case c == '(':
		p.at++
		if p.depth++; p.depth > maxNesting {
			p.fail("parentheses nest deeper than %d", maxNesting)
			return nil
		}
		p.space(true)
		e := p.alternatives(true)
		p.depth--
		if !p.take(")") {
			p.unexpected(`")"`)
		}
		return e
	default:
		start := p.at
		name := p.name()
		if name == "" {
			return nil
		}
		after := p.at
		p.at = start
		r := p.ref(name)
		p.at = after
		return r
	}
}

func (p *parser) quantified(e grammar.Expr) (grammar.Expr, bool) {
	r := grammar.Repeat{Expr: e, Max: -1}
	switch p.peek() {
	case '*':
	case '+':
		r.Min = 1
	case '?':
		r.Max = 1
	case '{':
		p.at++
		p.space(false)
		r.Min = p.number()
		r.Max = r.Min
		p.space(false)
		if p.take(",") {
			p.space(false)
			r.Max = -1
			if p.peek() != '}' {
				r.Max = p.number()
			}
			p.space(false)
		}
		switch {
		case p.err == nil && p.peek() != '}':
			p.unexpected(`"}"`)
		case r.Max >= 0 && r.Max < r.Min:
			p.fail("{%d,%d} has a bound below the least", r.Min, r.Max)
		}
	default:
		return nil, false
	}
	if p.err == nil {
		p.at++
	}
	return r, true
}

// maxTurns is more than any automaton has, and small enough for an int anywhere.
const maxTurns = 1 << 30

func (p *parser) number() int {
	start := p.at
	for p.peek() >= '0' && p.peek() <= '9' {
		p.at++
	}
	if start == p.at {
		p.unexpected("a number")
		return 0
	}
	n, err := strconv.Atoi(p.text[start:p.at])
	if err != nil || n > maxTurns {
		p.at = start
		p.fail("a number beyond %d", maxTurns)
	}
	return n
}

func (p *parser) literal() grammar.Expr {
	p.at++
	var b []byte
	for p.err == nil && !p.take(`"`) {
		b = utf8.AppendRune(b, p.char(`a closing "`))
	}
	return grammar.Lit(b)
}

func (p *parser) class() grammar.Expr {
	p.at++
	not := p.take("^")
	var ranges []grammar.Range
	for p.err == nil && !p.take("]") {
		start := p.at
		lo := p.char("a closing ]")
		hi := lo
		if p.peek() == '-' && !strings.HasPrefix(p.text[p.at:], "-]") {
			p.at++
			hi = p.char("the end of a range")
		}
		if p.err == nil && hi < lo {
			p.at = start
			p.fail("the range %q to %q is reversed", lo, hi)
		}
		ranges = append(ranges, grammar.Range{Lo: lo, Hi: hi})
	}
	c := grammar.NewClass(ranges...)
	if not {
		return c.Negate()
	}
	return c
}

// char reads a code point, which may be escaped.
func (p *parser) char(want string) rune {
	c, n := utf8.DecodeRuneInString(p.text[p.at:])
	switch {
	case n == 0:
		p.unexpected(want)
		return 0
	case c == utf8.RuneError && n == 1:
		p.fail("the byte 0x%02X is not UTF-8", p.peek())
		return 0
	case c != '\\':
		p.at += n
		return c
	}
	start := p.at
	p.at++
	e := p.peek()
	p.at = min(p.at+1, len(p.text))
	switch e {
	case 'x':
		return p.hex(start, 2)
	case 'u':
		return p.hex(start, 4)
	case 'U':
		return p.hex(start, 8)
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'n':
		return '\n'
	case '\\', '"', '[', ']', '-', '^':
		return rune(e)
	}
	p.at = start
	p.fail(`an unknown escape, want \x, \u, \U, \t, \r, \n, \\, \", \[ or \]`)
	return 0
}

func (p *parser) hex(start, digits int) rune {
	if len(p.text)-p.at >= digits {
		n, err := strconv.ParseUint(p.text[p.at:p.at+digits], 16, 32)
		if err == nil && n <= utf8.MaxRune && (n < 0xD800 || n > 0xDFFF) {
			p.at += digits
			return rune(n)
		}
		if err == nil {
			p.at = start
			p.fail("U+%04X is no code point", n)
			return 0
		}
	}
	p.at = start
	p.fail("an escape without its %d hexadecimal digits", digits)
	return 0
}

// tokens reads <name>, <[id]>, or one of them after an exclamation mark.
func (p *parser) tokens() grammar.Expr {
	t := grammar.Token{Not: p.take("!")}
	start := p.at
	if !p.take("<") {
		p.unexpected("a token, <name> or <[id]>")
		return t
	}
	if p.take("[") {
		id := p.number()
		t.IDs = []int32{int32(id)}
		if p.err == nil && !p.take("]>") {
			p.unexpected("]>")
		}
		return t
	}
	n := strings.IndexAny(p.text[p.at:], ">\n")
	if n < 0 || p.text[p.at+n] != '>' {
		p.at = start
		p.fail("a token without a closing >")
		return t
	}
	p.at += n + 1
	name := p.text[start:p.at]
	var id int32
	ok := false
	if p.token != nil {
		id, ok = p.token(name)
	}
	if !ok {
		p.at = start
		p.fail("the model has no token %q", name)
	}
	t.IDs = []int32{id}
	return t
}
