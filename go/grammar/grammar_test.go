package grammar

import (
	"errors"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	digit := Class{{'0', '9'}}
	var g Grammar
	nested := g.Add("nested", nil)
	g.Rules[nested].Expr = Alt{Lit(""), Seq{Lit("("), nested, Lit(")")}}
	for _, c := range []struct {
		e       Expr
		yes, no []string
	}{
		{Lit("ab"), []string{"ab"}, []string{"", "a", "abc"}},
		{Seq{}, []string{""}, []string{"a"}},
		{Alt{}, nil, []string{"", "a"}},
		{Class{}, nil, []string{"", "a"}},
		{Repeat{digit, 2, 3}, []string{"12", "123"}, []string{"1", "1234", "1a"}},
		{Repeat{Lit(""), 5, -1}, []string{""}, []string{"a"}},
		{Repeat{Alt{Lit(""), Lit("a")}, 1000, 1000}, []string{"", "aaa"}, []string{"b"}},
		{Seq{Repeat{digit, 0, -1}, Lit("1")}, []string{"1", "21", "1111"}, []string{"", "12"}},
		{nested, []string{"", "()", "((()))"}, []string{"(", "(()"}},
		{And{Repeat{digit, 0, -1}, Not{Seq{Repeat{digit, 0, -1}, Lit("0")}}}, []string{"", "1", "101"}, []string{"10", "a"}},
		{Seq{Not{Lit("x")}, Lit("y")}, []string{"y", "xxy", "ay"}, []string{"x", "xy"}},
		{Repeat{Any, 2, 2}, []string{"éü"}, []string{"é", "\xff\xff"}},
	} {
		for _, text := range c.yes {
			if !Match(&g, c.e, text, nil) {
				t.Errorf("%#v refuses %q", c.e, text)
			}
		}
		for _, text := range c.no {
			if Match(&g, c.e, text, nil) {
				t.Errorf("%#v accepts %q", c.e, text)
			}
		}
	}
}

// Repetitions within one another do not take exponential time.
func TestNestedRepeats(t *testing.T) {
	var counted, starred Expr = Repeat{Lit("a"), 0, 1}, Lit("a")
	for range 12 {
		counted = Repeat{counted, 1000, 1000}
	}
	for range 40 {
		starred = Repeat{starred, 0, -1}
	}
	if !Match(nil, counted, "", nil) || !Match(nil, counted, "aaa", nil) || Match(nil, counted, "b", nil) {
		t.Error("counted repetitions match wrongly")
	}
	if !Match(nil, starred, "aaa", nil) || Match(nil, starred, "aaab", nil) {
		t.Error("repetitions match wrongly")
	}
}

// A text that takes more steps than there are ends with an error, and takes no more time.
func TestMatchSteps(t *testing.T) {
	var e Expr = Class{{'a', 'z'}}
	for range 6 {
		e = Repeat{e, 1, 100}
	}
	match := func(w *Work) (err error) {
		defer Catch(&err)
		Match(nil, e, strings.Repeat("a", 1000), w)
		return nil
	}
	if err := match(NewWork(t.Context(), 10_000)); !errors.Is(err, ErrLarge) || !Overran(err) {
		t.Errorf("%v", err)
	}
}

func TestClass(t *testing.T) {
	c := NewClass(Range{'x', 'z'}, Range{'a', 'c'}, Range{'b', 'f'}, Range{'g', 'g'}, Range{0xD000, 0xE000})
	for _, x := range []struct {
		c    Class
		in   string
		none string
	}{
		{c, "abcdefgxyz\ue000", "`hw{\ue001"},
		{c.Negate(), "`hw{\ue001\U0010FFFF\x00", "abgxz"},
		{c.Without(Runes("bx")), "acyz", "bx"},
		{Runes("k").FoldCase(), "kK\u212A", "l"},
		{Any, "\x00\U0010FFFF\uD7FF", ""},
	} {
		for _, r := range x.in {
			if !x.c.Has(r) {
				t.Errorf("%x has no %x", x.c, r)
			}
		}
		for _, r := range x.none {
			if x.c.Has(r) {
				t.Errorf("%x has %x", x.c, r)
			}
		}
	}
	if len(Any.Negate()) != 0 {
		t.Errorf("%x beyond all", Any.Negate())
	}
}

func TestIncludeRefusesDeepRules(t *testing.T) {
	var e Expr = Lit("a")
	for range MaxNesting {
		e = Repeat{e, 0, 1}
	}
	var g Grammar
	if _, err := g.Include(&Grammar{Rules: []Rule{{"deep", e}}}); err == nil {
		t.Error("a rule beyond the bound is included")
	}
	if ref, err := g.Include(&Grammar{Rules: []Rule{{"x", Seq{Lit("a"), Ref(0)}}}}); err != nil || g.Rules[ref].Expr.(Seq)[1] != ref {
		t.Errorf("%v, %v", ref, err)
	}
}

func TestRecursive(t *testing.T) {
	for _, tt := range []struct {
		want  bool
		rules []Expr
	}{
		{false, []Expr{Lit("a")}},
		{true, []Expr{Seq{Lit("a"), Ref(0)}}},
		{false, []Expr{Alt{Ref(1), Ref(2), Ref(1)}, Seq{Ref(2), Ref(3)}, Repeat{Ref(3), 0, -1}, Lit("a")}},
		{true, []Expr{Alt{Ref(1), Ref(2)}, Not{Ref(2)}, And{Ref(3)}, Repeat{Ref(1), 0, 1}}},
		{false, []Expr{Lit("a"), Ref(1)}}, // no text needs it
	} {
		g := &Grammar{}
		for _, e := range tt.rules {
			g.Add("r", e)
		}
		if got := g.Recursive(); got != tt.want {
			t.Errorf("%v: %v", tt.rules, got)
		}
	}
}
