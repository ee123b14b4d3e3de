package constrain

import (
	"math"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// The last value of each bound of a grammar is taken, and the next one refused by name.
func TestBoundsOfGrammars(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	a := grammar.Lit("a")
	deep := func(n int) grammar.Expr {
		e := grammar.Expr(a)
		for range n {
			e = grammar.Seq{e}
		}
		return e
	}
	for _, tt := range []struct {
		name string
		expr grammar.Expr
		want string
	}{
		{"the first token", grammar.Token{IDs: []int32{0}}, ""}, {"the last", grammar.Token{IDs: []int32{255}}, ""},
		{"one beyond", grammar.Token{IDs: []int32{1, 256}}, "token 256 of the grammar is not in the vocabulary of 256"}, {"one before", grammar.Token{IDs: []int32{-1}}, "token -1 of the grammar"},
		{"a token in an intersection", grammar.And{grammar.Token{IDs: []int32{1}}, a}, "a token within an intersection or a complement"},
		{"a limit of one", grammar.Limit{Expr: a, Tokens: 1}, ""}, {"a huge limit", grammar.Limit{Expr: a, Tokens: math.MaxInt}, ""}, {"a limit of none", grammar.Limit{Expr: a}, "a limit of 0 tokens, want at least 1"},
		{"none or more", grammar.Repeat{Expr: a, Max: -1}, ""}, {"less than none", grammar.Repeat{Expr: a, Min: -1, Max: 1}, "repeats from -1 to 1 times"}, {"no bound of that kind", grammar.Repeat{Expr: a, Max: -2}, "repeats from 0 to -2 times"},
		{"the same", grammar.Repeat{Expr: a, Min: 3, Max: 3}, ""}, {"fewer than the least", grammar.Repeat{Expr: a, Min: 3, Max: 2}, "repeats from 3 to 2 times"},
		{"as often as may be", grammar.Repeat{Expr: a, Min: 1 << 20, Max: 1 << 20}, ""}, {"more often", grammar.Repeat{Expr: a, Max: 1<<20 + 1}, "repeats up to 1048577 times, at most 1048576 are possible"},
		{"more often at least", grammar.Repeat{Expr: a, Min: 1<<20 + 1, Max: -1}, "repeats up to 1048577 times"},
		{"a rule that is not there", grammar.Ref(1), "rule"}, {"another", grammar.Ref(-1), "rule"},
		{"nothing", nil, "an expression of type <nil>"}, {"no text", grammar.Alt{}, "no text matches the grammar"}, {"no text of a class", grammar.Class{}, "no text matches the grammar"},
		{"no text of an intersection", grammar.And{a, grammar.Lit("b")}, "no text matches the grammar"}, {"itself alone", grammar.Ref(0), "the grammar"},
		{"as deep as may be", deep(maxNesting - 2), ""}, {"deeper", deep(maxNesting + 1), "nests more than 2000 deep"},
	} {
		g := &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: tt.expr}}}
		_, err := v.Compile(g)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := v.Compile(&grammar.Grammar{}); err == nil || err.Error() != "the grammar has no rules" {
		t.Errorf("no rules: %v", err)
	}
}

// Texts that are single however they are written are one: of code points that there are.
func TestLiterals(t *testing.T) {
	for _, tt := range []struct {
		expr grammar.Expr
		text string
		is   bool
	}{
		{grammar.Lit("ab"), "ab", true}, {grammar.Lit(""), "", true}, {grammar.Class{{Lo: 'é', Hi: 'é'}}, "é", true}, {grammar.Class{{Lo: 'a', Hi: 'b'}}, "", false}, {grammar.Class{}, "", false},
		{grammar.Class{{Lo: 'a', Hi: 'a'}, {Lo: 'c', Hi: 'c'}}, "", false}, {grammar.Class{{Lo: 0xD800, Hi: 0xD800}}, "", false},
		{grammar.Seq{grammar.Lit("a"), grammar.Class{{Lo: 'b', Hi: 'b'}}, grammar.Seq{grammar.Lit("c")}}, "abc", true}, {grammar.Seq{}, "", true}, {grammar.Seq{grammar.Lit("a"), grammar.Alt{grammar.Lit("b")}}, "", false},
		{grammar.Alt{grammar.Lit("a")}, "", false}, {grammar.Repeat{Expr: grammar.Lit("a"), Min: 1, Max: 1}, "", false},
	} {
		if text, is := literal(tt.expr); is != tt.is || is && text != tt.text {
			t.Errorf("%#v is %q, %v", tt.expr, text, is)
		}
	}
}
