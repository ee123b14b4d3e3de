package form

import (
	"cmp"
	"fmt"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/regex"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Trigger begins a form within a text that was free before. The form has to begin with it.
type Trigger struct {
	Kind  TriggerKind
	Text  string // the word or the pattern
	Token int32
}

// A TriggerKind is what a trigger is.
type TriggerKind uint8

// The kinds, by the numbers that llama-server gives them.
const (
	TokenTrigger   TriggerKind = iota // a token; one that prints text: that text
	WordTrigger                       // a text
	PatternTrigger                    // a regular expression of some text; the form begins with its first group, if it has one
	FullTrigger                       // the same of all text so far
)

// A TriggerError is about a trigger, not about the form.
type TriggerError struct{ error }

// triggered returns the texts of e from the first trigger on, with any text before it, and any text
// without a trigger. Where e and the rules of g have the name of a token that is a trigger or preserved,
// that token may be too.
func triggered(g *grammar.Grammar, e grammar.Expr, triggers []Trigger, preserved []int32, tok *tokenizer.Tokenizer) (grammar.Expr, error) {
	var begun, heads grammar.Alt // texts with a trigger at their end, texts before one
	ids := map[int32]bool{}
	anyText := grammar.Repeat{Expr: grammar.Any, Max: -1}
	word := func(text string) {
		begun, heads = append(begun, grammar.Seq{anyText, grammar.Lit(text)}), append(heads, anyText)
	}
	for i, t := range triggers {
		wrong := func(err error) error { return &TriggerError{fmt.Errorf("element %d: %w", i, err)} }
		id, control := control(tok)(t.Text)
		switch {
		case t.Kind == TokenTrigger && (t.Token < 0 || int(t.Token) >= tok.Len()):
			return nil, wrong(fmt.Errorf("token: %d, want one of the vocabulary of %d", t.Token, tok.Len()))
		case t.Kind == TokenTrigger && len(tok.Piece(t.Token, false)) > 0:
			word(string(tok.Piece(t.Token, false)))
		case t.Kind == TokenTrigger:
			ids[t.Token] = true
		case t.Kind == WordTrigger && control:
			ids[id] = true
		case t.Kind == WordTrigger:
			word(t.Text)
		default:
			whole := t.Kind == FullTrigger
			matches, err := regex.Search(t.Text)
			if whole {
				matches, err = regex.Full(t.Text, 0)
			}
			head, wrongHead := regex.Before(t.Text, whole)
			if err := cmp.Or(err, wrongHead); err != nil {
				return nil, wrong(err)
			}
			begun, heads = append(begun, matches), append(heads, head)
		}
	}
	named := map[string]int32{}
	for id := range ids {
		named[tok.Token(id)] = id
	}
	for _, id := range preserved {
		named[tok.Token(id)] = id
	}
	names := newNames(named)
	for i := range g.Rules {
		g.Rules[i].Expr = names.with(g.Rules[i].Expr)
	}
	e = names.with(e)

	free, first := grammar.Expr(anyText), grammar.Alt{}
	if len(begun) > 0 {
		free = grammar.Not{Expr: grammar.Seq{begun, anyText}}
		first = append(first, grammar.Seq{grammar.And{free, heads}, e})
	}
	silent := grammar.Token{} // tokens that print nothing are free too
	for id := range int32(tok.Len()) {
		if !ids[id] && !tok.IsEOG(id) && len(tok.Piece(id, false)) == 0 {
			silent.IDs = append(silent.IDs, id)
		}
	}
	if len(ids) > 0 {
		first = append(first, grammar.Seq{free, e})
	}
	last := append(grammar.Alt{free}, first...)
	if len(silent.IDs) == 0 {
		return last, nil
	}
	return grammar.Seq{grammar.Repeat{Expr: grammar.Seq{free, silent}, Max: -1}, last}, nil
}
