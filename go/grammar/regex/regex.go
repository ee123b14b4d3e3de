// Package regex reads regular expressions into grammars: the syntax of ECMA-262, which is
// that of JSON Schema's pattern, with what Rust and Go have beside it.
package regex

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/grammar"
)

// Bounds of an expression.
const (
	maxBytes  = 64 << 10
	maxDepth  = 200
	maxRepeat = 1 << 16
	maxSteps  = 1 << 14
)

// Flags change how an expression is read, as (?i) and (?s) within it do.
type Flags uint8

// The flags.
const (
	FoldCase Flags = 1 << iota // letters match in any case
	DotAll                     // . matches line ends too
)

var everything = grammar.Repeat{Expr: grammar.Any, Min: 0, Max: -1}

// Search returns the texts in which an expression matches somewhere, which is what JSON
// Schema's pattern means.
func Search(pattern string) (grammar.Expr, error) {
	n, err := parse(pattern, 0)
	if err != nil {
		return nil, err
	}
	before := &node{op: opRepeat, subs: []*node{{class: grammar.Any}}, max: -1}
	c := compiler{}
	return c.lang([]*node{before, n}, atStart, everything)
}

// Full returns the texts that an expression matches from the first character to the last.
func Full(pattern string, f Flags) (grammar.Expr, error) {
	n, err := parse(pattern, f)
	if err != nil {
		return nil, err
	}
	c := compiler{}
	return c.lang([]*node{n}, atStart, grammar.Lit(""))
}

type op uint8

const (
	opClass op = iota
	opSeq
	opAlt
	opRepeat
	opBegin    // ^
	opEnd      // $
	opAhead    // (?=x); not: (?!x)
	opBoundary // \b; not: \B
)

// A node is a part of an expression.
type node struct {
	op       op
	class    grammar.Class
	subs     []*node
	min, max int
	turns    int // how often what is innermost is repeated, at most: counts of repetitions within one another multiply
	not      bool
	captures bool // a group with a number
	looks    look // at what the assertions within look
}

// look is what assertions depend on.
type look uint8

const (
	looksBack  look = 1 << iota // at whether anything is before
	looksWord                   // at whether a letter is before
	looksAhead                  // at what follows
)

// before is what is known of the text before a place.
type before uint8

const (
	atStart   before = iota // nothing is
	afterWord               // a character of \w, where that was asked
	afterOther
)

// A compiler makes languages of nodes, from the right to the left: the language of a list
// of nodes is of all that may follow a place until the end of the text, so that an
// assertion about what follows is an intersection with it.
type compiler struct{ steps int }

var errLarge = errors.New("the regular expression is too large")

// lang returns the texts that match list and end with a text of rest.
func (c *compiler) lang(list []*node, prev before, rest grammar.Expr) (grammar.Expr, error) {
	if c.steps++; c.steps > maxSteps {
		return nil, errLarge
	}
	if len(list) == 0 {
		return rest, nil
	}
	head, tail := list[0], list[1:]
	if head.looks == 0 {
		return c.plain(head, tail, prev, rest)
	}
	switch head.op {
	case opSeq:
		return c.lang(slices.Concat(head.subs, tail), prev, rest)
	case opAlt:
		out := grammar.Alt{}
		for _, sub := range head.subs {
			e, err := c.lang(slices.Concat([]*node{sub}, tail), prev, rest)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return alt(out...), nil
	case opRepeat:
		return c.repeat(head, tail, prev, rest)
	}
	after, err := c.lang(tail, prev, rest)
	if err != nil {
		return nil, err
	}
	switch head.op {
	case opBegin:
		if prev != atStart {
			return grammar.Alt{}, nil
		}
		return after, nil
	case opEnd:
		if !nullable(after) {
			return grammar.Alt{}, nil
		}
		return grammar.Lit(""), nil
	case opBoundary:
		word := seq(wordClass, everything)
		if (prev == afterWord) == head.not {
			return and(word, after), nil
		}
		return and(grammar.Not{Expr: word}, after), nil
	}
	ahead, err := c.lang(head.subs, prev, everything)
	if head.not {
		ahead = grammar.Not{Expr: ahead}
	}
	return and(ahead, after), err
}

// plain is lang where the first of the nodes has no assertions.
func (c *compiler) plain(head *node, tail []*node, prev before, rest grammar.Expr) (grammar.Expr, error) {
	e := c.expr(head)
	var looks look
	for _, n := range tail {
		looks |= n.looks
	}
	if looks&looksBack == 0 {
		after, err := c.lang(tail, afterOther, rest)
		return seq(e, after), err
	}
	var parts []grammar.Expr
	add := func(e grammar.Expr, prev before) error {
		after, err := c.lang(tail, prev, rest)
		parts = append(parts, seq(e, after))
		return err
	}
	empty := nullable(e)
	if looks&looksWord == 0 && (!empty || prev != atStart) { // then something is before the tail, or was before the head
		err := add(e, afterOther)
		return alt(parts...), err
	}
	if empty {
		if err := add(grammar.Lit(""), prev); err != nil {
			return nil, err
		}
	}
	if looks&looksWord == 0 {
		err := add(and(e, grammar.Not{Expr: grammar.Lit("")}), afterOther)
		return alt(parts...), err
	}
	if err := add(and(e, seq(everything, wordClass)), afterWord); err != nil {
		return nil, err
	}
	err := add(and(e, seq(everything, wordClass.Negate())), afterOther)
	return alt(parts...), err
}

// repeat is lang where the first of the nodes is a repetition of assertions.
func (c *compiler) repeat(head *node, tail []*node, prev before, rest grammar.Expr) (grammar.Expr, error) {
	if head.max < 0 {
		return nil, errors.New("^, $, \\b and (?= within a repetition without a bound are not supported")
	}
	var out []grammar.Expr
	list := tail
	for n := 0; n <= head.max; n++ {
		if n >= head.min {
			e, err := c.lang(list, prev, rest)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		list = slices.Concat(head.subs, list)
		if c.steps += len(list); c.steps > maxSteps {
			return nil, errLarge
		}
	}
	return alt(out...), nil
}

// expr returns the language of a node that has no assertions.
func (c *compiler) expr(n *node) grammar.Expr {
	c.steps++ // an assertion that follows has it made for each way to get there
	switch n.op {
	case opClass:
		return n.class
	case opRepeat:
		return grammar.Repeat{Expr: c.expr(n.subs[0]), Min: n.min, Max: n.max}
	}
	subs := make([]grammar.Expr, len(n.subs))
	for i, s := range n.subs {
		subs[i] = c.expr(s)
	}
	if n.op == opAlt {
		return alt(subs...)
	}
	return seq(subs...)
}

func nullable(e grammar.Expr) bool { return grammar.Match(nil, e, "", nil) }

func nothing(e grammar.Expr) bool {
	switch e := e.(type) {
	case grammar.Alt:
		return len(e) == 0
	case grammar.Class:
		return len(e) == 0
	}
	return false
}

// seq is a sequence, in which literals are joined.
func seq(list ...grammar.Expr) grammar.Expr {
	out := grammar.Seq{}
	var add func(e grammar.Expr) bool
	add = func(e grammar.Expr) bool {
		switch x := e.(type) {
		case grammar.Seq:
			for _, sub := range x {
				add(sub)
			}
			return true
		case grammar.Class:
			if len(x) == 1 && x[0].Lo == x[0].Hi {
				e = grammar.Lit(string(x[0].Lo))
			}
		}
		if nothing(e) {
			return false
		}
		lit, ok := e.(grammar.Lit)
		switch last := len(out) - 1; {
		case ok && lit == "":
			return true
		case ok && last >= 0:
			if before, ok := out[last].(grammar.Lit); ok {
				out[last] = before + lit
				return true
			}
		}
		out = append(out, e)
		return true
	}
	for _, e := range list {
		if !add(e) {
			return grammar.Alt{}
		}
	}
	switch len(out) {
	case 0:
		return grammar.Lit("")
	case 1:
		return out[0]
	}
	return out
}

func alt(list ...grammar.Expr) grammar.Expr {
	list = slices.DeleteFunc(list, nothing)
	if len(list) == 1 {
		return list[0]
	}
	return grammar.Alt(list)
}

func and(a, b grammar.Expr) grammar.Expr {
	if nothing(a) || nothing(b) {
		return grammar.Alt{}
	}
	return grammar.And{a, b}
}

func unsupported(what string) error { return fmt.Errorf("%s is not supported", what) }
