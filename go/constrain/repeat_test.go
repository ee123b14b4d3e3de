package constrain

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// Repetitions of nothing cost nothing, wherever they are.
func TestRepeatedEmptyTexts(t *testing.T) {
	var e grammar.Expr = grammar.Lit("")
	for range 4 {
		e = grammar.Repeat{Expr: e, Min: 1 << 16, Max: 1 << 17}
	}
	v, pieces := vocabulary(true)
	for _, e := range []grammar.Expr{e, grammar.And{e, grammar.Repeat{Expr: grammar.Any, Max: -1}}} {
		a, err := v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Seq{grammar.Lit("a"), e}}}})
		if err != nil {
			t.Fatal(err)
		}
		c := a.New(true)
		if !accepts(c, pieces, "a") || accepts(c, pieces, "") || accepts(c, pieces, "aa") {
			t.Errorf("%#v is not the empty text", e)
		}
	}
}

// References within an intersection are written out, so rules that double are refused.
func TestDoublingRulesAreRefused(t *testing.T) {
	g := &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Not{Expr: grammar.Ref(1)}}}}
	for i := range 60 {
		g.Add("double", grammar.Seq{grammar.Ref(i + 2), grammar.Ref(i + 2)})
	}
	g.Add("last", grammar.Lit(""))
	v, _ := vocabulary(true)
	if _, err := v.Compile(g); err == nil || !strings.Contains(err.Error(), "more than 16777216 expressions") {
		t.Errorf("got %v", err)
	}
}

// Rules that are repeated within an intersection are part of it.
func TestRepeatWithinIntersection(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	g := &grammar.Grammar{}
	root := g.Add("root", nil)
	word := g.Add("word", grammar.Repeat{Expr: grammar.NewClass(grammar.Range{Lo: 'a', Hi: 'z'}), Min: 2, Max: 3})
	g.Rules[root].Expr = grammar.And{grammar.Repeat{Expr: word, Min: 2, Max: 5}, grammar.Not{Expr: grammar.Lit("abcd")}}
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	c := a.New(false)
	for _, b := range "abcde" {
		if !c.Accept(int32(b)) {
			t.Fatalf("%q is refused", b)
		}
	}
}

// An intersection or a complement that lacks the empty text is repeated as often as is said.
func TestRepeatedIntersections(t *testing.T) {
	v, pieces := vocabulary(true)
	some := grammar.Not{Expr: grammar.Lit("")}
	for name, e := range map[string]grammar.Expr{
		"and": grammar.And{grammar.Alt{grammar.Lit("z"), grammar.Lit("")}, some},
		"not": grammar.Not{Expr: grammar.Alt{grammar.Lit(""), grammar.Not{Expr: grammar.Lit("z")}}},
	} {
		a, err := v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Repeat{Expr: e, Min: 2, Max: 40}}}})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{"": false, "z": false, "zz": true, strings.Repeat("z", 40): true, strings.Repeat("z", 41): false} {
			if got := accepts(a.New(true), pieces, text); got != want {
				t.Errorf("%s: %q is taken: %v", name, text, got)
			}
		}
	}
}
