// Package lark reads grammars in the notation of Lark, as llguidance and vLLM take it.
package lark

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
	"github.com/quern-llm/quern/go/grammar/regex"
)

// Bounds of a grammar's text.
const (
	maxBytes       = 4 << 20
	maxNesting     = 200
	maxQuantifiers = 100    // of one part
	maxChain       = 10_000 // of the nodes of rules that name one another
	maxRepeat      = 1 << 16
)

// common are the terminals of %import common, and what %import may name.
var common = map[string]string{
	"DIGIT": `[0-9]`, "HEXDIGIT": `[a-fA-F0-9]`, "INT": `[0-9]+`, "SIGNED_INT": `[+-]?[0-9]+`, "DECIMAL": `[0-9]+\.[0-9]*|\.[0-9]+`,
	"FLOAT":          `[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?`,
	"SIGNED_FLOAT":   `[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)`,
	"NUMBER":         `[0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?`,
	"SIGNED_NUMBER":  `[+-]?([0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)`,
	"ESCAPED_STRING": `"([^"\\\n\r]|\\[^\n\r])*"`, "LCASE_LETTER": `[a-z]`, "UCASE_LETTER": `[A-Z]`, "LETTER": `[A-Za-z]`, "WORD": `[A-Za-z]+`,
	"CNAME": `[_A-Za-z][_A-Za-z0-9]*`, "WS_INLINE": `[ \t]+`, "WS": `[ \t\f\r\n]+`, "CR": `\r`, "LF": `\n`, "NEWLINE": `(\r?\n)+`,
	"SH_COMMENT": `#[^\n]*`, "CPP_COMMENT": `//[^\n]*`, "C_COMMENT": `/\*([^*]|\*+[^*/])*\*+/`, "SQL_COMMENT": `--[^\n]*`,
}

// Parse reads a grammar; its texts are those of the rule "start", or "root" where there is
// none of that name. Priorities, aliases, captures and the marks ? and ! of rules are about
// trees and change no text. What is ignored may come between the parts of rules, and before and after
// all. The name of a token, such as <|im_end|>, is looked up with token, which may be nil:
// then there are none. Reading and compiling the grammar is work, which may be nil.
func Parse(text string, token func(name string) (id int32, ok bool), work *grammar.Work) (*grammar.Grammar, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("the grammar has %d bytes, want at most %d", len(text), maxBytes)
	}
	work.Do(len(text))
	list, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{lexemes: list, token: token, rules: map[string]*rule{}}
	if err := p.statements(); err != nil {
		return nil, fmt.Errorf("%w, at line %d of the grammar", err, p.line())
	}
	root := p.rules["start"]
	if root == nil {
		root = p.rules["root"]
	}
	if root == nil {
		return nil, errors.New("the grammar has no rule named start")
	}
	b := &builder{rules: p.rules, g: &grammar.Grammar{Work: work}, refs: map[string]grammar.Ref{}, token: token}
	return b.build(root, p.ignored)
}

// A rule is a definition. The names of terminals are in upper case: they are regular, and
// nothing is ignored within them.
type rule struct {
	name string
	body *node
	line int
	attributes
}

func terminal(name string) bool { return strings.ToUpper(name) == name }

type op uint8

const (
	opText  op = iota // a string, a range or a regular expression
	opName            // a rule
	opToken           // <name> or <[id]>
	opJSON            // %json {...}
	opRegex           // %regex {...}
	opSeq
	opAlt
	opAnd
	opNot
	opRepeat
)

// A node is a part of a definition.
type node struct {
	op       op
	text     string // of opName, opToken, opJSON, opRegex
	expr     grammar.Expr
	subs     []*node
	min, max int
	line     int
}

// A builder makes the rules.
type builder struct {
	rules   map[string]*rule
	g       *grammar.Grammar
	refs    map[string]grammar.Ref
	within  []string // terminals that are being made
	depth   int      // of the nodes that are being made
	ignored grammar.Expr
	token   func(string) (int32, bool)
}

func (b *builder) build(root *rule, ignored []*node) (*grammar.Grammar, error) {
	start := b.g.Add("start", nil)
	if len(ignored) > 0 {
		var alt grammar.Alt
		for _, n := range ignored {
			e, err := b.expr(n, true)
			if err != nil {
				return nil, err
			}
			alt = append(alt, e)
		}
		b.ignored = b.g.Add("ignored", grammar.Repeat{Expr: alt, Min: 0, Max: -1})
	}
	if err := b.ends(&node{op: opName, text: root.name}, true, map[string]bool{}); err != nil {
		return nil, err
	}
	e, err := b.ref(root.name, 0, false)
	if err != nil {
		return nil, err
	}
	if b.ignored != nil { // after each part, so that it is left before all
		e = grammar.Seq{b.ignored, e}
	}
	b.g.Rules[start].Expr = e
	return b.g, nil
}

// ref returns a reference to a rule, or the expression of a terminal. within says that it
// is part of a terminal.
func (b *builder) ref(name string, line int, within bool) (grammar.Expr, error) {
	r := b.rules[name]
	if r == nil {
		return nil, fmt.Errorf("%s is not defined, at line %d of the grammar", name, line)
	}
	if within && !terminal(name) {
		return nil, fmt.Errorf("the terminal before line %d has the rule %s, want terminals only", line+1, name)
	}
	for _, outer := range b.within {
		if outer == name {
			return nil, fmt.Errorf("the terminal %s refers to itself, want a rule, whose name is in lower case", name)
		}
	}
	ref, ok := b.refs[name]
	if !ok {
		ref = b.g.Add(name, nil)
		b.refs[name] = ref
		if terminal(name) {
			b.within = append(b.within, name)
		}
		var e grammar.Expr
		var err error
		if terminal(name) {
			e, err = b.expr(r.body, true)
		} else {
			e, err = b.attributed(r)
		}
		if err != nil {
			return nil, err
		}
		if terminal(name) {
			b.within = b.within[:len(b.within)-1]
		}
		b.g.Rules[ref].Expr = e
	}
	return ref, nil
}

// spaced returns a part of a rule, or with within of a terminal, and what is ignored after it.
func (b *builder) spaced(e grammar.Expr, within bool) grammar.Expr {
	if within || b.ignored == nil {
		return e
	}
	return grammar.Seq{e, b.ignored}
}

// expr returns the texts of a node. In rules each part is followed by what is ignored.
func (b *builder) expr(n *node, within bool) (grammar.Expr, error) {
	if b.depth++; b.depth > maxChain {
		return nil, fmt.Errorf("the rules nest more than %d deep, at line %d of the grammar", maxChain, n.line)
	}
	defer func() { b.depth-- }()
	b.g.Work.Do(1)
	spaced := func(e grammar.Expr) grammar.Expr { return b.spaced(e, within) }
	switch n.op {
	case opText:
		return spaced(n.expr), nil
	case opName:
		e, err := b.ref(n.text, n.line, within)
		if err == nil && terminal(n.text) {
			e = spaced(e)
		}
		return e, err
	case opToken:
		if within {
			return nil, fmt.Errorf("the token %s within a terminal, at line %d of the grammar", n.text, n.line)
		}
		id, ok := int32(0), false
		if b.token != nil {
			id, ok = b.token(n.text)
		}
		if !ok {
			return nil, fmt.Errorf("the vocabulary has no token %s, at line %d of the grammar", n.text, n.line)
		}
		return spaced(grammar.Token{IDs: []int32{id}}), nil
	case opJSON:
		if within {
			return nil, fmt.Errorf("%%json within a terminal, at line %d of the grammar", n.line)
		}
		e, err := jsonschema.Add(b.g, []byte(n.text), jsonschema.Options{})
		if err != nil {
			return nil, fmt.Errorf("%%json: %w, at line %d of the grammar", err, n.line)
		}
		return spaced(e), nil
	case opRegex:
		e, err := b.structured(n.text)
		if err != nil {
			return nil, fmt.Errorf("%w, at line %d of the grammar", err, n.line)
		}
		return spaced(e), nil
	case opRepeat:
		e, err := b.expr(n.subs[0], within)
		return grammar.Repeat{Expr: e, Min: n.min, Max: n.max}, err
	}
	// What is combined by & and ~ is regular.
	regular := within || n.op == opAnd || n.op == opNot
	subs := make([]grammar.Expr, 0, len(n.subs))
	for i := 0; i < len(n.subs); i++ {
		var next *node
		if n.op == opSeq && i+1 < len(n.subs) {
			next = n.subs[i+1]
		}
		e, stopped, err := b.stopped(n.subs[i], next)
		if stopped {
			i++ // the stop
		} else if err == nil {
			e, err = b.expr(n.subs[i], regular)
		}
		if err != nil {
			return nil, err
		}
		subs = append(subs, e)
	}
	switch n.op {
	case opSeq:
		return grammar.Seq(subs), nil
	case opAlt:
		return grammar.Alt(subs), nil
	case opAnd:
		return spaced(grammar.And(subs)), nil
	}
	return spaced(grammar.Not{Expr: subs[0]}), nil
}

// pattern returns the texts of /pattern/flags.
func pattern(text, flags string) (grammar.Expr, error) {
	var f regex.Flags
	for _, c := range flags {
		switch c {
		case 'i':
			f |= regex.FoldCase
		case 's':
			f |= regex.DotAll
		case 'u':
		default:
			return nil, fmt.Errorf("the flag %c of a regular expression is not supported", c)
		}
	}
	return regex.Full(text, f)
}
