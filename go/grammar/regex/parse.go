package regex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// A parser reads the text of an expression.
type parser struct {
	text  string
	at    int
	flags Flags
	depth int
}

func parse(pattern string, f Flags) (*node, error) {
	if len(pattern) > maxBytes {
		return nil, fmt.Errorf("the regular expression has %d bytes, want at most %d", len(pattern), maxBytes)
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("the regular expression is not UTF-8")
	}
	p := &parser{text: pattern, flags: f}
	n, err := p.alternatives()
	if err == nil && p.at < len(p.text) {
		err = errors.New(") without (")
	}
	if err != nil {
		return nil, fmt.Errorf("%w, at byte %d of the regular expression", err, p.at)
	}
	return n, nil
}

// take skips a text if it is next.
func (p *parser) take(s string) bool {
	if !strings.HasPrefix(p.text[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// next returns the next character and skips it; -1 at the end.
func (p *parser) next() rune {
	if p.at == len(p.text) {
		return -1
	}
	r, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	return r
}

// until returns the text before the next end, and skips both.
func (p *parser) until(end string) (string, error) {
	s, _, ok := strings.Cut(p.text[p.at:], end)
	if !ok {
		return "", fmt.Errorf("%s is missing", end)
	}
	p.at += len(s) + len(end)
	return s, nil
}

func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("groups nest more than %d deep", maxDepth)
	}
	flags := p.flags
	defer func() { p.depth, p.flags = p.depth-1, flags }()
	out := &node{op: opAlt}
	for {
		s, err := p.sequence()
		if err != nil {
			return nil, err
		}
		out.subs = append(out.subs, s)
		out.looks |= s.looks
		out.turns = max(out.turns, s.turns)
		if !p.take("|") {
			break
		}
	}
	if len(out.subs) == 1 {
		return out.subs[0], nil
	}
	return out, nil
}

func (p *parser) sequence() (*node, error) {
	out := &node{op: opSeq}
	for p.at < len(p.text) && p.text[p.at] != '|' && p.text[p.at] != ')' {
		n, err := p.atom()
		if err == nil && n != nil {
			n, err = p.quantified(n)
		}
		if err != nil {
			return nil, err
		}
		if n != nil {
			out.subs = append(out.subs, n)
			out.looks |= n.looks
			out.turns = max(out.turns, n.turns)
		}
	}
	return out, nil
}

// quantified reads the quantifier after a node, if there is one. A lazy one matches the
// same texts.
func (p *parser) quantified(n *node) (*node, error) {
	lo, hi := 0, -1
	switch {
	case p.take("*"):
	case p.take("+"):
		lo = 1
	case p.take("?"):
		hi = 1
	case strings.HasPrefix(p.text[p.at:], "{"):
		var ok bool
		var err error
		if lo, hi, ok, err = p.counts(); err != nil || !ok {
			return n, err
		}
	default:
		return n, nil
	}
	p.take("?")
	if p.take("+") {
		return nil, unsupported("a possessive quantifier")
	}
	if strings.ContainsAny(p.text[p.at:min(p.at+1, len(p.text))], "*?") {
		return nil, errors.New("a quantifier follows a quantifier")
	}
	turns := max(lo, hi, 1) * max(n.turns, 1)
	if turns > maxRepeat {
		return nil, fmt.Errorf("more than %d repetitions", maxRepeat)
	}
	return &node{op: opRepeat, subs: []*node{n}, min: lo, max: hi, turns: turns, looks: n.looks}, nil
}

// counts reads {m}, {m,} or {m,n}. Other braces stand for themselves.
func (p *parser) counts() (lo, hi int, ok bool, err error) {
	inner, _, closed := strings.Cut(p.text[p.at+1:], "}")
	from, to, ranged := strings.Cut(inner, ",")
	if !closed || strings.Trim(inner, "0123456789,") != "" || from == "" || strings.Contains(to, ",") {
		return 0, 0, false, nil
	}
	p.at += len(inner) + 2
	if lo, err = strconv.Atoi(from); err == nil {
		switch {
		case !ranged:
			hi = lo
		case to == "":
			hi = -1
		default:
			hi, err = strconv.Atoi(to)
		}
	}
	switch {
	case err != nil || max(lo, hi) > maxRepeat:
		err = fmt.Errorf("{%s} has more than %d repetitions", clip(inner), maxRepeat)
	case hi >= 0 && hi < lo:
		err = fmt.Errorf("{%s} is out of order", inner)
	}
	return lo, hi, true, err
}

func clip(s string) string { return s[:min(len(s), 20)] }

// atom reads what a quantifier may follow; nil after flags.
func (p *parser) atom() (*node, error) {
	switch r := p.next(); r {
	case '(':
		return p.group()
	case '[':
		c, err := p.class()
		return p.one(c), err
	case '.':
		if p.flags&DotAll != 0 {
			return p.one(grammar.Any), nil
		}
		return p.one(lineEnds.Negate()), nil
	case '^':
		return &node{op: opBegin, looks: looksBack}, nil
	case '$':
		return &node{op: opEnd, looks: looksAhead}, nil
	case '\\':
		return p.escape()
	case '*', '+', '?':
		return nil, fmt.Errorf("nothing before %c to repeat", r)
	default:
		return p.one(grammar.Class{{Lo: r, Hi: r}}), nil
	}
}

func (p *parser) one(c grammar.Class) *node {
	if p.flags&FoldCase != 0 {
		c = c.FoldCase()
	}
	return &node{op: opClass, class: c}
}

// group reads what follows a parenthesis.
func (p *parser) group() (*node, error) {
	look := func(not bool) (*node, error) {
		n, err := p.closed()
		if err != nil {
			return nil, err
		}
		return &node{op: opAhead, subs: []*node{n}, not: not, turns: n.turns, looks: n.looks | looksAhead}, nil
	}
	captures := true
	switch {
	case p.take("?:"):
		captures = false
	case p.take("?="):
		return look(false)
	case p.take("?!"):
		return look(true)
	case p.take("?<="), p.take("?<!"):
		return nil, unsupported("a lookbehind")
	case p.take("?>"):
		return nil, unsupported("an atomic group")
	case p.take("?P<"), p.take("?<"):
		name, err := p.until(">")
		if err == nil && (name == "" || strings.ContainsAny(name, "()|[]")) {
			err = fmt.Errorf("the group's name %q", clip(name))
		}
		if err != nil {
			return nil, err
		}
	case p.take("?"):
		return p.flagged()
	}
	n, err := p.closed()
	if err == nil {
		n.captures = captures
	}
	return n, err
}

func (p *parser) closed() (*node, error) {
	n, err := p.alternatives()
	if err == nil && !p.take(")") {
		err = errors.New(") is missing")
	}
	return n, err
}

// flagged reads flags: of the group, or of the rest of the group around them.
func (p *parser) flagged() (*node, error) {
	flags, on := p.flags, true
	for {
		var f Flags
		switch r := p.next(); r {
		case 'i':
			f = FoldCase
		case 's':
			f = DotAll
		case 'u':
		case '-':
			on = false
		case ':':
			was := p.flags
			p.flags = flags
			n, err := p.closed()
			p.flags = was
			return n, err
		case ')':
			p.flags = flags
			return nil, nil
		case -1:
			return nil, errors.New(") is missing")
		default:
			return nil, unsupported(fmt.Sprintf("the group (?%c", r))
		}
		if flags |= f; !on {
			flags &^= f
		}
	}
}
