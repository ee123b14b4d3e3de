// Package jsonschema reads JSON Schema, draft 7 and 2020-12, into grammars of the
// documents that a schema allows.
package jsonschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
)

// Bounds of a schema.
const (
	maxBytes   = 4 << 20
	maxNesting = 200
	maxShapes  = 512     // alternatives of one value
	maxSteps   = 1 << 17 // pairs of alternatives that are put together
	maxStates  = 1 << 14 // of members or elements that are counted
	maxRules   = 1 << 17
	maxCounted = 1 << 18 // alternatives of the rules of one array that count its elements
	maxMatches = 1 << 25 // steps of matching names and listed strings with patterns
)

// Options say how documents are written.
type Options struct {
	// Exact is all documents that the schema allows. Without it the schema is read as its authors mean it: an object has
	// only the members that are described, unless the schema says what others are; a tuple has its elements; a schema of
	// members is of an object, though no type says so; in draft 7, a type beside a $ref holds too; and at the root {} is an
	// object.
	Exact bool
	// Space comes after {, [, a comma and a colon, and before } and ]. nil is what
	// models write: nothing, one space, or a new line and an indent, which is bounded
	// since a model that is unsure might write nothing else.
	Space grammar.Expr
	// Compact documents are on one line, with the ", " and ": " that models know best:
	// it is what Python's json writes.
	Compact bool
	// Notation is how values are written that are not JSON; nil: they are.
	Notation *Notation
}

// A Notation writes values as JSON does, but for these parts.
type Notation struct {
	True, False, Null grammar.Lit
	// Text returns the texts of strings by what they say, Name those of the names of members; nil is anything.
	Text, Name   func(says grammar.Expr) grammar.Expr
	Colon, Comma grammar.Expr
}

var tooComplex = &Error{"#", "", "its patterns are too complex for the names or the strings that it lists"}

// An Error is a part of a schema that is wrong, or can't be decided by a grammar.
type Error struct {
	Path    string // of the schema, a JSON pointer
	Keyword string
	Reason  string
}

func (e *Error) Error() string {
	if e.Keyword == "" {
		return fmt.Sprintf("%s: %s", e.Path, e.Reason)
	}
	return fmt.Sprintf("%s/%s: %s", e.Path, e.Keyword, e.Reason)
}

// Grammar returns the documents that a schema allows.
func Grammar(schema []byte, opts Options) (*grammar.Grammar, error) {
	g := &grammar.Grammar{}
	root := g.Add("root", nil)
	e, err := Add(g, schema, opts)
	if err != nil {
		return nil, err
	}
	g.Rules[root].Expr = e
	return g, nil
}

// Add adds the rules of a schema to g, and returns the documents that it allows. It counts as g's work, if it has any.
func Add(g *grammar.Grammar, text []byte, opts Options) (e grammar.Expr, err error) {
	defer grammar.Catch(&err)
	c, err := newCompiler(g, text, opts)
	if err != nil {
		return nil, err
	}
	e, err = c.value(set{{s: c.root}}.with())
	if err != nil {
		return nil, err
	}
	if e == nil || !c.productive(e) {
		return nil, errors.New("the schema allows no document")
	}
	return e, nil
}

func newCompiler(g *grammar.Grammar, text []byte, opts Options) (*compiler, error) {
	g.Work.Do(len(text))
	v, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := &compiler{
		g: g, opts: opts, doc: newDocument(v), known: map[literal][]*shape{}, within: map[literal]bool{}, barren: map[string]bool{},
		work: g.Work, matching: g.Work.Part(maxMatches, tooComplex), rules: map[string]grammar.Ref{}, common: map[string]grammar.Ref{}, constants: map[*value]*schema{}, own: map[*schema]*schema{},
	}
	c.root = c.doc.schema(v, "", "#", nil)
	return c, c.guidance(v.member("x-guidance"))
}

// guidance reads what a schema says of how its documents are written, as llguidance has it: with whitespace_flexible
// false there is no white space but that of the separators.
func (c *compiler) guidance(v *value) error {
	c.separators = [2]grammar.Lit{", ", ": "}
	if v == nil || v.kind != '{' {
		return nil
	}
	if flexible, ok := v.member("whitespace_flexible").bool(); flexible || !ok {
		return nil
	}
	c.opts.Compact, c.opts.Space = true, nil
	c.separators = [2]grammar.Lit{",", ":"}
	for i, name := range []string{"item_separator", "key_separator"} {
		s := v.member(name)
		if s == nil {
			continue
		}
		if mark := string(c.separators[i]); s.kind != '"' || strings.Trim(s.text, " \t\r\n") != mark {
			return c.fail(c.root, "x-guidance", "%s: %s, want %q, with white space or without", name, s, mark)
		}
		c.separators[i] = grammar.Lit(s.text)
	}
	return nil
}

// A compiler makes the rules of one schema.
type compiler struct {
	g          *grammar.Grammar
	opts       Options
	doc        *document
	root       *schema
	known      map[literal][]*shape
	within     map[literal]bool // schemas whose shapes are being made
	barren     map[string]bool  // sets: whether they allow nothing
	rules      map[string]grammar.Ref
	common     map[string]grammar.Ref
	constants  map[*value]*schema
	own        map[*schema]*schema // what schemas say without those within
	begun      bool                // the root is being written
	steps      int
	work       *grammar.Work
	matching   *grammar.Work  // the part of matching names and listed strings
	separators [2]grammar.Lit // of elements and members, and of a member's name and value, in compact documents
	cuts       int            // how often it was not followed to the end whether a set allows nothing
	depth      int
}

func (c *compiler) fail(s *schema, keyword, message string, args ...any) *Error {
	return &Error{s.path, keyword, fmt.Sprintf(message, args...)}
}

// shared returns the rule of an expression that many use.
func (c *compiler) shared(name string, e grammar.Expr) grammar.Expr {
	r, ok := c.common[name]
	if !ok {
		r = c.g.Add(name, e)
		c.common[name] = r
	}
	return r
}

// value returns the texts of the values that a set allows.
func (c *compiler) value(s set) (grammar.Expr, error) {
	root := !c.begun
	c.begun = true
	s = c.followed(s)
	if len(s) == 0 && !(root && !c.opts.Exact) {
		return c.any()
	}
	key := s.key()
	if r, ok := c.rules[key]; ok && len(s) > 0 {
		return r, nil
	}
	if c.work.Do(8 + len(s)); len(c.g.Rules) > maxRules {
		return nil, c.fail(c.root, "", "the schema makes more than %d rules", maxRules)
	}
	name := "root"
	if len(s) > 0 {
		name = s[0].s.path
	}
	r := c.g.Add(name, nil)
	c.rules[key] = r
	out := grammar.Alt{}
	shapes, err := c.expand(s)
	for i := 0; i < len(shapes) && err == nil; i++ {
		x := shapes[i]
		if !c.opts.Exact {
			x = x.meant(root)
		}
		var list []grammar.Expr
		list, err = c.write(x, shapes)
		out = append(out, list...)
	}
	if err != nil {
		delete(c.rules, key)
		return nil, err
	}
	c.g.Rules[r].Expr = out
	return r, nil
}

// annotations say nothing about values.
var annotations = map[string]bool{"title": true, "description": true, "default": true, "examples": true, "deprecated": true, "$comment": true}

// followed returns a set with what its references mean, where a schema is no more than one:
// all that refer to a schema share its rules.
func (c *compiler) followed(s set) set {
	var out set
	for i, l := range s {
		for range maxNesting {
			ref := l.s.v.member("$ref")
			if ref == nil || ref.kind != '"' || c.typed(l.s) || !c.doc.old && slices.ContainsFunc(l.s.v.names, func(n string) bool { return n != "$ref" && !annotations[n] }) {
				break
			}
			to, err := c.doc.target(l.s, ref.text, false)
			if err != nil { // it is reported where the schema is read
				break
			}
			l.s = to
		}
		if l != s[i] {
			if out == nil {
				out = slices.Clone(s)
			}
			out[i] = l
		}
	}
	if out == nil {
		return s
	}
	return out.with()
}

// meant returns the values of the one kind that a schema speaks of.
func (a *shape) meant(root bool) *shape {
	k := a.about & (kNumber | kString | kArray | kObject)
	if a.about == 0 && root {
		k = kObject
	}
	if a.kinds != kAll || k == 0 || k&(k-1) != 0 {
		return a
	}
	out := *a
	out.kinds = k
	return &out
}

// write returns the texts of the values of a shape.
func (c *compiler) write(x *shape, all []*shape) ([]grammar.Expr, error) {
	kinds := x.kinds
	for k, err := range x.refused {
		if kinds&k == 0 {
			continue
		}
		// What a negation leaves may have other alternatives that can be decided.
		decided := false
		for _, other := range all {
			decided = decided || other.kinds&k != 0 && other.refused[k] == nil
		}
		if c.opts.Exact || !decided {
			return nil, err
		}
		kinds &^= k
	}
	only := *x
	only.kinds = kinds
	out := c.scalars(&only)
	if c.opts.Exact && kinds&kNumber != 0 && x.num.only {
		for _, v := range x.num.in {
			if !strings.ContainsAny(v.text, ".eE") {
				out = append(out, grammar.Seq{grammar.Lit(v.text + "."), zeros})
			}
		}
	}
	if kinds&kNumber != 0 && !x.num.only {
		e, err := c.number(x.num)
		if err != nil {
			return nil, c.fail(c.root, "multipleOf", "%v", err)
		}
		out = append(out, e)
	}
	if kinds&kString != 0 && !x.str.only {
		out = append(out, c.str(x.str))
	}
	if kinds&kArray != 0 {
		e, err := c.array(x.arr)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	if kinds&kObject != 0 {
		e, err := c.object(x.obj)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// scalars returns the values of a shape that are listed.
func (c *compiler) scalars(x *shape) []grammar.Expr {
	var out []grammar.Expr
	n := c.opts.Notation
	if n == nil {
		n = &Notation{Null: "null", True: "true", False: "false"}
	}
	for _, k := range []struct {
		kind kinds
		text grammar.Lit
	}{{kNull, n.Null}, {kTrue, n.True}, {kFalse, n.False}} {
		if x.kinds&k.kind != 0 {
			out = append(out, k.text)
		}
	}
	if x.kinds&kNumber != 0 && x.num.only {
		for _, v := range x.num.in {
			out = append(out, grammar.Lit(v.text))
		}
	}
	if x.kinds&kString != 0 && x.str.only {
		for _, s := range x.str.in {
			out = append(out, c.quote(s))
		}
	}
	return out
}

// any returns the texts of all values.
func (c *compiler) any() (grammar.Expr, error) {
	if r, ok := c.common["value"]; ok {
		return r, nil
	}
	r := c.g.Add("value", nil)
	c.common["value"] = r
	list, err := c.write(top(), nil)
	c.g.Rules[r].Expr = grammar.Alt(list)
	return r, err
}

// space returns what may come between the parts of a document.
func (c *compiler) space() grammar.Expr {
	switch {
	case c.opts.Space != nil:
		return c.shared("space", c.opts.Space)
	case c.opts.Compact || c.opts.Notation != nil:
		return grammar.Lit("")
	}
	indent := grammar.Seq{grammar.Lit("\n"), grammar.Repeat{Expr: grammar.Runes(" \t"), Min: 0, Max: 20}}
	return c.shared("space", grammar.Alt{grammar.Lit(""), grammar.Lit(" "), indent})
}

// comma returns what separates elements; nothing before the first.
func (c *compiler) comma(needed bool) grammar.Expr {
	if !needed {
		return grammar.Lit("")
	}
	switch {
	case c.opts.Notation != nil:
		return c.opts.Notation.Comma
	case c.opts.Compact:
		return c.separators[0]
	}
	return grammar.Seq{grammar.Lit(","), c.space()}
}

func (c *compiler) colon() grammar.Expr {
	switch {
	case c.opts.Notation != nil:
		return c.opts.Notation.Colon
	case c.opts.Space != nil:
		return grammar.Seq{grammar.Lit(":"), c.space()}
	case c.opts.Compact:
		return c.separators[1]
	}
	return grammar.Seq{grammar.Lit(":"), optional(grammar.Lit(" "))}
}

// productive reports whether an expression has texts; And and Not are taken to have some.
func (c *compiler) productive(root grammar.Expr) bool {
	has := make([]bool, len(c.g.Rules))
	var yes func(e grammar.Expr) bool
	yes = func(e grammar.Expr) bool {
		c.work.Do(1)
		switch e := e.(type) {
		case grammar.Class:
			return len(e) > 0
		case grammar.Seq:
			for _, sub := range e {
				if !yes(sub) {
					return false
				}
			}
		case grammar.Alt:
			for _, sub := range e {
				if yes(sub) {
					return true
				}
			}
			return false
		case grammar.Repeat:
			return e.Min == 0 || yes(e.Expr)
		case grammar.AnyOrder:
			some := e.More != nil && yes(e.More)
			for i, part := range e.Parts {
				switch is := yes(part); {
				case is:
					some = true
				case i < e.Must:
					return false
				}
			}
			return some
		case grammar.Ref:
			return has[e]
		}
		return true
	}
	for changed := true; changed; {
		changed = false
		for i := len(has) - 1; i >= 0; i-- {
			if !has[i] && c.g.Rules[i].Expr != nil && yes(c.g.Rules[i].Expr) {
				has[i], changed = true, true
			}
		}
	}
	return yes(root)
}
