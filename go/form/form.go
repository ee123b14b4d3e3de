// Package form makes constraints of the ways in which requests and flags say what an
// answer is held to.
package form

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/gbnf"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
	"github.com/quern-llm/quern/go/grammar/lark"
	"github.com/quern-llm/quern/go/grammar/regex"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Kind is a way to say it.
type Kind uint8

// The kinds.
const (
	Grammar Kind = iota // in GBNF or Lark
	Schema              // a JSON schema
	Regex               // of the whole text
	Choice              // one of some texts
	Tags                // free text with structures
)

// A Form is what a text is held to.
type Form struct {
	Kind    Kind
	Text    string   // of a grammar, a schema or a regular expression
	Choices []string // of Choice
	Tagged           // of Tags
	Space   string   // a regular expression of the white space in JSON; empty: bounded
	Compact bool     // JSON is on one line
}

// Tagged is free text, but what begins with a trigger is one of some structures, each a
// JSON schema between two texts.
type Tagged struct {
	Triggers   []string
	Structures []Structure
}

// A Structure begins with a trigger.
type Structure struct{ Begin, End, Schema string }

// Vocabulary returns the tokens of a tokenizer by what they print.
func Vocabulary(tok *tokenizer.Tokenizer) *constrain.Vocabulary {
	v := constrain.NewVocabulary(tok.Len(), func(id int32) []byte { return tok.Piece(id, false) }, tok.EOG())
	v.Encode = func(text string) []int32 {
		return tok.Encode(text, tokenizer.Options{NoSpecial: true, Continues: true})
	}
	return v
}

// Constraint returns the constraint of the form; v is the tokenizer's vocabulary. Where
// prompt is not nil, the text is a reply to it, and the reasoning before it is free. With
// ends the text is followed by a token that ends it.
func (f *Form) Constraint(tok *tokenizer.Tokenizer, v *constrain.Vocabulary, prompt *chat.Prompt, ends bool) (constrain.Constraint, error) {
	g := &grammar.Grammar{}
	root := g.Add("root", nil)
	e, err := f.language(g, tok)
	if err != nil {
		return nil, err
	}
	if prompt != nil {
		if t, ok := prompt.Thoughts(); ok {
			e = afterThoughts(tok, t, e)
		}
	}
	g.Rules[root].Expr = e
	a, err := v.Compile(g)
	if err != nil {
		return nil, err
	}
	return a.New(ends), nil
}

// language adds to g what the form needs, and returns its texts.
func (f *Form) language(g *grammar.Grammar, tok *tokenizer.Tokenizer) (grammar.Expr, error) {
	opts := jsonschema.Options{Compact: f.Compact}
	if f.Space != "" {
		space, err := regex.Full(f.Space, 0)
		if err != nil {
			return nil, fmt.Errorf("the pattern of white space: %w", err)
		}
		opts.Space = space
	}
	switch f.Kind {
	case Choice:
		alt := make(grammar.Alt, len(f.Choices))
		for i, c := range f.Choices {
			alt[i] = grammar.Lit(c)
		}
		return alt, nil
	case Regex:
		return regex.Full(f.Text, regex.DotAll)
	case Schema:
		return jsonschema.Add(g, []byte(f.Text), opts)
	case Tags:
		return f.Tagged.language(g, opts)
	}
	var h *grammar.Grammar
	var err error
	if strings.Contains(f.Text, "::=") {
		h, err = gbnf.Parse(f.Text, named(tok))
	} else {
		h, err = lark.Parse(f.Text, named(tok))
	}
	if err != nil {
		return nil, err
	}
	return g.Include(h), nil
}

// named returns the tokens by their names, such as <|im_end|>.
func named(tok *tokenizer.Tokenizer) func(name string) (int32, bool) {
	return func(name string) (int32, bool) {
		ids := tok.Encode(name, tokenizer.Options{ParseSpecial: true})
		if len(ids) != 1 || tok.Token(ids[0]) != name {
			return 0, false
		}
		return ids[0], true
	}
}

// afterThoughts returns e after reasoning. The marks around that are tokens that print
// nothing, or texts.
func afterThoughts(tok *tokenizer.Tokenizer, t chat.Thoughts, e grammar.Expr) grammar.Expr {
	mark := func(text string) grammar.Expr {
		if id, ok := named(tok)(text); ok && len(tok.Piece(id, false)) == 0 {
			return grammar.Alt{grammar.Token{IDs: []int32{id}}, grammar.Lit(text)}
		}
		return grammar.Lit(text)
	}
	space := grammar.Repeat{Expr: grammar.Runes(" \t\r\n"), Min: 0, Max: 4}
	thought := grammar.Seq{grammar.Lacks(t.Shut), mark(t.Shut), space, e}
	if t.Begun {
		return thought
	}
	return grammar.Alt{e, grammar.Seq{space, mark(t.Open), thought}}
}

// language returns the texts.
func (t *Tagged) language(g *grammar.Grammar, opts jsonschema.Options) (grammar.Expr, error) {
	var free grammar.And
	for _, trigger := range t.Triggers {
		free = append(free, grammar.Lacks(trigger))
	}
	var alt grammar.Alt
	for _, s := range t.Structures {
		e, err := jsonschema.Add(g, []byte(s.Schema), opts)
		if err != nil {
			return nil, err
		}
		alt = append(alt, grammar.Seq{grammar.Lit(s.Begin), e, grammar.Lit(s.End)})
	}
	return grammar.Seq{free, grammar.Repeat{Expr: grammar.Seq{alt, free}, Min: 0, Max: -1}}, nil
}
