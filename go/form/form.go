// Package form makes constraints of the ways in which requests and flags say what an
// answer is held to.
package form

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
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
	Tags                // what a structural tag says
	Free                // any text
)

// Readings are the ways to read a schema: with the members that it describes alone, as its authors mean it, and to the letter.
var Readings = []string{"closed", "exact"}

// A Form is what a text is held to.
type Form struct {
	Kind    Kind
	Text    string   // of a grammar, a schema, a regular expression or the JSON of a structural tag
	Choices []string // of Choice
	Space   string   // a regular expression of the white space in JSON; empty: bounded
	Compact bool     // JSON is on one line
	Exact   bool     // a schema is read to the letter

	Triggers  []Trigger // not nil: what is before the first of them is free
	Preserved []int32   // tokens that may be in the place of their names, with triggers

	Namespace string // within which what is compiled is kept for the next who asks for it
}

// Vocabulary returns the tokens of a tokenizer by what they print.
func Vocabulary(tok *tokenizer.Tokenizer) *constrain.Vocabulary {
	v := constrain.NewVocabulary(tok.Len(), func(id int32) []byte { return tok.Piece(id, false) }, tok.EOG())
	v.Encode = func(text string) []int32 {
		return tok.Encode(text, tokenizer.Options{NoSpecial: true, Continues: true})
	}
	return v
}

// Input returns the texts that OpenAI's grammars of custom tools describe, in Lark or as a regular expression
// of the whole text. It ends with the context, whose cause is its error then.
func Input(ctx context.Context, syntax, definition string) (g *grammar.Grammar, err error) {
	switch syntax {
	case "lark":
		err = inTurn(ctx, func(work *grammar.Work) error {
			g, err = lark.Parse(definition, nil, work)
			return err
		})
		return g, err
	case "regex":
		e, err := regex.Full(definition, regex.DotAll)
		return &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: e}}}, err
	}
	return nil, fmt.Errorf("the syntax %.40q, want lark or regex", syntax)
}

// A CallsError is about the tools of a prompt, not about the form.
type CallsError struct{ error }

// Unwrap returns the error of the tools: work that was too much for a first attempt may be enough for the second.
func (e *CallsError) Unwrap() error { return e.error }

// Compile returns the automaton of the texts that have the form; nil: of all. v is the
// tokenizer's vocabulary. Where prompt is not nil, the text is a reply to it, with
// reasoning before it that is free, and with calls of tools as the rule says. If the tools' schemas are too large to
// compile, the arguments of tools that are not strict may be any object. It ends with the context, whose cause is its
// error then.
func (f *Form) Compile(ctx context.Context, tok *tokenizer.Tokenizer, v *constrain.Vocabulary, prompt *chat.Prompt, calls *chat.CallRule) (a *constrain.Automaton, err error) {
	if name := f.name(prompt, calls); name != nil {
		if a := v.Named(name); a != nil {
			return a, nil
		}
		defer func() {
			if err == nil {
				v.Name(name, a)
			}
		}()
	}
	compile := func(calls *chat.CallRule) (a *constrain.Automaton, err error) {
		err = inTurn(ctx, func(work *grammar.Work) error {
			a, err = f.compile(work, tok, v, prompt, calls)
			return err
		})
		return a, err
	}
	if a, err = compile(calls); err == nil || calls == nil || ctx.Err() != nil {
		return a, err
	}
	loose := *calls
	loose.Loose = true
	if a, worse := compile(&loose); worse == nil {
		return a, nil
	}
	return nil, err
}

// name returns what tells the form apart from others for the same prompt and calls, comparable; nil: nothing does.
func (f *Form) name(prompt *chat.Prompt, calls *chat.CallRule) any {
	type name struct {
		form  [sha256.Size]byte
		reply any
	}
	n := name{}
	if f != nil {
		h := sha256.New()
		rest := *f
		rest.Text, rest.Choices = "", nil
		fmt.Fprintf(h, "%#v", rest)
		for _, text := range append([]string{f.Text}, f.Choices...) {
			fmt.Fprintf(h, "%d ", len(text))
			io.WriteString(h, text)
		}
		n.form = [sha256.Size]byte(h.Sum(nil))
	}
	if prompt != nil {
		if n.reply = prompt.LanguageKey(calls); n.reply == nil {
			return nil
		}
	}
	return n
}

func (f *Form) compile(work *grammar.Work, tok *tokenizer.Tokenizer, v *constrain.Vocabulary, prompt *chat.Prompt, calls *chat.CallRule) (*constrain.Automaton, error) {
	g := &grammar.Grammar{Work: work}
	root := g.Add("root", nil)
	var e grammar.Expr
	var err error
	namespace := ""
	if f != nil {
		namespace = f.Namespace
	}
	if f != nil && f.Kind != Free {
		if e, err = f.language(g, tok); err != nil {
			return nil, err
		}
		if f.Triggers != nil {
			if e, err = triggered(g, e, f.Triggers, f.Preserved, tok); err != nil {
				return nil, err
			}
		}
	}
	if prompt != nil {
		if e, err = prompt.Language(g, e, calls, control(tok)); err != nil {
			return nil, &CallsError{err}
		}
	}
	if e == nil {
		e = grammar.Repeat{Expr: grammar.Any, Max: -1}
	}
	g.Rules[root].Expr = e
	return v.CompileFor(namespace, g)
}

// language adds to g what the form needs, and returns its texts.
func (f *Form) language(g *grammar.Grammar, tok *tokenizer.Tokenizer) (grammar.Expr, error) {
	opts := jsonschema.Options{Compact: f.Compact, Exact: f.Exact}
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
		return tags(g, tok, f.Text, opts)
	}
	var h *grammar.Grammar
	var err error
	if strings.Contains(f.Text, "::=") {
		h, err = gbnf.Parse(f.Text, named(tok), g.Work)
	} else {
		h, err = lark.Parse(f.Text, named(tok), g.Work)
	}
	if err != nil {
		return nil, err
	}
	return g.Include(h)
}

// named returns the tokens by their names, such as <|im_end|>.
func named(tok *tokenizer.Tokenizer) func(name string) (int32, bool) {
	return func(name string) (int32, bool) {
		ids := tok.Encode(name, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
		if len(ids) != 1 || tok.Token(ids[0]) != name {
			return 0, false
		}
		return ids[0], true
	}
}

// control returns the token that a mark is, if it is one that prints nothing.
func control(tok *tokenizer.Tokenizer) func(mark string) (int32, bool) {
	return func(mark string) (int32, bool) {
		id, ok := named(tok)(mark)
		return id, ok && len(tok.Piece(id, false)) == 0
	}
}
