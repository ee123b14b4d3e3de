package server

import (
	"fmt"
	"net/http"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/tokenizer"
)

// rule returns which calls the answer may have, nil where there are none.
func (b *toolbox) rule() *chat.CallRule {
	if len(b.tools.list) == 0 || b.choice.mode == "none" {
		return nil
	}
	var strict []string
	for _, t := range b.tools.list {
		if t.Strict {
			strict = append(strict, t.Name)
		}
	}
	return &chat.CallRule{Strict: strict, Required: b.choice.mode == "required", Single: !b.parallel || b.tools.old, Names: b.choice.names}
}

// holdCalls returns the constraint that makes the calls of an answer what the tools' schemas
// say, from where one begins. Where that is too much to compile, the arguments of tools that
// are not strict are any objects. It is nil for an answer that may have no calls.
func (m *Model) holdCalls(prompt *chat.Prompt, rule *chat.CallRule, ends bool) (constrain.Constraint, error) {
	if rule == nil {
		return nil, nil
	}
	loose := *rule
	loose.Loose = true
	var first error
	for _, r := range []*chat.CallRule{rule, &loose} {
		a, err := m.language(prompt, r)
		if err == nil {
			return a.New(ends), nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, &apiError{status: http.StatusBadRequest, param: "tools", message: fmt.Sprintf("tools: %v", first)}
}

// language compiles what the reply to a prompt may be.
func (m *Model) language(prompt *chat.Prompt, rule *chat.CallRule) (*constrain.Automaton, error) {
	g := &grammar.Grammar{}
	root := g.Add("root", nil)
	e, err := prompt.Language(g, nil, rule, m.control)
	if err != nil {
		return nil, err
	}
	g.Rules[root].Expr = e
	return m.vocabulary().Compile(g)
}

// control returns the token that a mark is, if it is one that prints nothing.
func (m *Model) control(mark string) (int32, bool) {
	ids := m.Tokenizer.Encode(mark, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
	if len(ids) != 1 || m.Tokenizer.Token(ids[0]) != mark || len(m.Tokenizer.Piece(ids[0], false)) > 0 {
		return 0, false
	}
	return ids[0], true
}
