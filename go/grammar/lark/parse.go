package lark

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/grammar"
)

// A parser makes definitions of lexemes.
type parser struct {
	lexemes []lexeme
	at      int
	depth   int
	rules   map[string]*rule
	ignored []*node
	token   func(string) (int32, bool)
}

func (p *parser) peek() lexeme { return p.lexemes[p.at] }
func (p *parser) line() int    { return p.peek().line }

func (p *parser) next() lexeme {
	l := p.lexemes[p.at]
	if l.kind != end {
		p.at++
	}
	return l
}

// take skips a mark if it is next.
func (p *parser) take(text string) bool {
	if l := p.peek(); l.kind != mark || l.text != text {
		return false
	}
	p.at++
	return true
}

func (p *parser) want(text string) error {
	if !p.take(text) {
		return fmt.Errorf("%s is missing before %s", text, p.peek().describe())
	}
	return nil
}

func (l lexeme) describe() string {
	switch l.kind {
	case end:
		return "the end"
	case newline:
		return "the end of the line"
	case str:
		return strconv.Quote(l.text)
	case pat:
		return "/" + l.text + "/"
	case keyword:
		return "%" + l.text
	}
	return l.text
}

func (p *parser) statements() error {
	for {
		switch l := p.next(); l.kind {
		case end:
			return nil
		case newline:
		case name:
			if err := p.definition(l); err != nil {
				return err
			}
		case keyword:
			if err := p.directive(l.text); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s where a definition begins", l.describe())
		}
	}
}

// definition reads what follows the name of a rule or of a terminal.
func (p *parser) definition(l lexeme) error {
	for p.take(".") { // a priority is about which tree is built
		if n := p.next(); n.kind != number {
			return fmt.Errorf("%s where the priority of %s is a number", n.describe(), l.text)
		}
	}
	var a attributes
	switch {
	case p.take("{"):
		return errors.New("templates of rules are not supported")
	case p.take("@"):
		return errors.New("references to other grammars are not supported")
	case p.take("["):
		if terminal(l.text) {
			return fmt.Errorf("the terminal %s has attributes, want a rule, whose name is in lower case", l.text)
		}
		var err error
		if a, err = p.attributes(l.text); err != nil {
			return err
		}
	}
	if err := p.want(":"); err != nil {
		return err
	}
	body, err := p.alternatives()
	if err != nil {
		return err
	}
	if p.rules[l.text] != nil {
		return fmt.Errorf("%s is defined twice", l.text)
	}
	p.rules[l.text] = &rule{l.text, body, l.line, a}
	return nil
}

func (p *parser) directive(word string) error {
	switch word {
	case "ignore":
		n, err := p.alternatives()
		p.ignored = append(p.ignored, n)
		return err
	case "import":
		return p.imported()
	case "declare":
		return errors.New("%declare is not supported: a terminal needs a definition")
	case "llguidance":
		l := p.next()
		if l.kind != mark || l.text != "{" || !p.take("}") {
			return errors.New("%llguidance with options is not supported, want {}")
		}
		return nil
	}
	return fmt.Errorf("%%%s is not supported", word)
}

// imported reads %import common.NAME, common.NAME -> OTHER and common (A, B).
func (p *parser) imported() error {
	if l := p.next(); l.kind != name || l.text != "common" {
		return fmt.Errorf("%%import %s is not supported, want common", l.describe())
	}
	add := func() error {
		l := p.next()
		text, ok := common[l.text]
		if l.kind != name || !ok {
			return fmt.Errorf("common has no %s", l.describe())
		}
		as := l.text
		if p.take("->") {
			to := p.next()
			if to.kind != name || !terminal(to.text) {
				return fmt.Errorf("%s where the name of a terminal is wanted", to.describe())
			}
			as = to.text
		}
		e, err := pattern(text, "")
		p.rules[as] = &rule{name: as, body: &node{op: opText, expr: e}, line: l.line}
		return err
	}
	if p.take(".") {
		return add()
	}
	if err := p.want("("); err != nil {
		return err
	}
	for {
		if err := add(); err != nil {
			return err
		}
		if !p.take(",") {
			return p.want(")")
		}
	}
}

// alternatives reads what | separates, also at the beginning of the next line.
func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("groups nest more than %d deep", maxNesting)
	}
	defer func() { p.depth-- }()
	out := &node{op: opAlt}
	for {
		n, err := p.both()
		if err != nil {
			return nil, err
		}
		out.subs = append(out.subs, n)
		if p.take("->") { // an alias is about trees
			if l := p.next(); l.kind != name {
				return nil, fmt.Errorf("%s where an alias is a name", l.describe())
			}
		}
		from := p.at
		for p.peek().kind == newline {
			p.at++
		}
		if !p.take("|") {
			p.at = from
			break
		}
	}
	if len(out.subs) == 1 {
		return out.subs[0], nil
	}
	return out, nil
}

// both reads what & separates.
func (p *parser) both() (*node, error) {
	out := &node{op: opAnd}
	for {
		n, err := p.sequence()
		if err != nil {
			return nil, err
		}
		out.subs = append(out.subs, n)
		if !p.take("&") {
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
	for {
		l := p.peek()
		if l.kind == newline && p.depth > 1 { // within brackets lines go on
			p.at++
			continue
		}
		if l.kind == end || l.kind == newline || l.kind == mark && strings.Contains("| ) ] & , ->", l.text) {
			return out, nil
		}
		n, err := p.repeated()
		if err != nil {
			return nil, err
		}
		out.subs = append(out.subs, n)
	}
}

// repeated reads an atom and what says how often it comes.
func (p *parser) repeated() (*node, error) {
	n, err := p.atom()
	for chain := 0; err == nil; chain++ {
		lo, hi := 0, -1
		switch {
		case p.take("*"):
		case p.take("+"):
			lo = 1
		case p.take("?"):
			hi = 1
		case p.take("{"):
			lo, hi, err = p.counts(",", "}")
		case p.peek().kind == mark && p.peek().text == "~" && p.lexemes[p.at+1].kind == number:
			p.at++
			lo, hi, err = p.counts("..", "")
		default:
			return n, nil
		}
		if chain == maxQuantifiers {
			return nil, fmt.Errorf("more than %d quantifiers one after another", maxQuantifiers)
		}
		n = &node{op: opRepeat, subs: []*node{n}, min: lo, max: hi, line: p.line()}
	}
	return nil, err
}

// counts reads a number or two.
func (p *parser) counts(between, after string) (lo, hi int, err error) {
	one := func() (int, error) {
		l := p.next()
		n, err := strconv.Atoi(l.text)
		if l.kind != number || err != nil || n < 0 || n > maxRepeat {
			return 0, fmt.Errorf("%s where a number of repetitions is wanted, 0 to %d", l.describe(), maxRepeat)
		}
		return n, nil
	}
	if lo, err = one(); err != nil {
		return 0, 0, err
	}
	if hi = lo; p.take(between) {
		if hi = -1; p.peek().kind == number {
			hi, err = one()
		} else if after == "" {
			err = errors.New(".. is not followed by a number")
		}
	}
	if err == nil && hi >= 0 && hi < lo {
		err = fmt.Errorf("%d to %d repetitions are out of order", lo, hi)
	}
	if err == nil && after != "" {
		err = p.want(after)
	}
	return lo, hi, err
}

func (p *parser) atom() (*node, error) {
	l := p.next()
	switch {
	case l.kind == name:
		return &node{op: opName, text: l.text, line: l.line}, nil
	case l.kind == tok:
		return &node{op: opToken, text: l.text, line: l.line}, nil
	case l.kind == keyword && l.text == "json":
		return &node{op: opJSON, text: p.next().text, line: l.line}, nil
	case l.kind == keyword && l.text == "regex":
		return &node{op: opRegex, text: p.next().text, line: l.line}, nil
	case l.kind == keyword:
		return nil, fmt.Errorf("%%%s is not supported", l.text)
	case l.kind == pat:
		e, err := pattern(l.text, l.flags)
		return &node{op: opText, expr: e, line: l.line}, err
	case l.kind == str:
		e, err := p.text(l)
		return &node{op: opText, expr: e, line: l.line}, err
	case l.kind == mark && l.text == "~":
		if p.depth++; p.depth > maxNesting {
			return nil, fmt.Errorf("~ and groups nest more than %d deep", maxNesting)
		}
		n, err := p.repeated()
		p.depth--
		return &node{op: opNot, subs: []*node{n}, line: l.line}, err
	case l.kind == mark && (l.text == "(" || l.text == "["):
		n, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		for p.peek().kind == newline {
			p.at++
		}
		if l.text == "(" {
			return n, p.want(")")
		}
		return &node{op: opRepeat, subs: []*node{n}, max: 1, line: l.line}, p.want("]")
	}
	return nil, fmt.Errorf("%s where a part of a rule is wanted", l.describe())
}

// text returns the texts of a string, or of a range of characters.
func (p *parser) text(l lexeme) (grammar.Expr, error) {
	if p.take("..") {
		to := p.next()
		lo, n := utf8.DecodeRuneInString(l.text)
		hi, m := utf8.DecodeRuneInString(to.text)
		if to.kind != str || n == 0 || m == 0 || n != len(l.text) || m != len(to.text) || lo > hi {
			return nil, fmt.Errorf("%q..%s is no range of characters", l.text, to.describe())
		}
		return grammar.NewClass(grammar.Range{Lo: lo, Hi: hi}), nil
	}
	switch l.flags {
	case "":
		return grammar.Lit(l.text), nil
	case "i":
		var seq grammar.Seq
		for _, r := range l.text {
			seq = append(seq, grammar.Class{{Lo: r, Hi: r}}.FoldCase())
		}
		return seq, nil
	}
	return nil, fmt.Errorf("the flag %s of a string is not supported, want i", l.flags)
}
