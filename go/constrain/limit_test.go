package constrain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// Limits of tokens hold by definition, however the rules nest, repeat and share their texts.
func TestLimits(t *testing.T) {
	ab := grammar.Class{{Lo: 'a', Hi: 'b'}}
	any := grammar.Class{{Lo: 'a', Hi: 'b'}, {Lo: 'z', Hi: 'z'}}
	star := func(e grammar.Expr) grammar.Expr { return grammar.Repeat{Expr: e, Max: -1} }
	limit := func(n int, e ...grammar.Expr) grammar.Expr { return grammar.Limit{Expr: grammar.Seq(e), Tokens: n} }
	z := grammar.Lit("z")
	for name, rules := range map[string][]grammar.Expr{
		"between":  {grammar.Seq{z, limit(2, star(ab)), z, star(any)}},
		"first":    {grammar.Seq{limit(1, star(ab)), star(z)}},
		"last":     {grammar.Seq{z, limit(2, star(ab))}},
		"all":      {limit(3, star(any))},
		"nested":   {grammar.Seq{limit(3, limit(1, star(ab)), z, star(ab)), star(z)}},
		"choice":   {grammar.Seq{grammar.Alt{limit(1, star(ab)), limit(2, star(any))}, z}},
		"repeated": {star(limit(1, grammar.Repeat{Expr: ab, Min: 1, Max: -1}, z))},
		"begun":    {grammar.Seq{grammar.Repeat{Expr: grammar.Lit("a"), Max: 2}, limit(2, star(ab)), star(z)}},
		"needed":   {grammar.Seq{limit(2, grammar.Repeat{Expr: ab, Min: 3, Max: -1}), star(z)}},
		"counted":  {grammar.Repeat{Expr: limit(1, star(ab), grammar.Lit("a")), Min: 2, Max: 5}},
		"recursive": {
			grammar.Alt{grammar.Seq{z, limit(2, grammar.Ref(1)), star(z)}, z},
			grammar.Alt{grammar.Seq{ab, grammar.Ref(1), z}, grammar.Ref(0), ab},
		},
		"tokens": {grammar.Seq{limit(2, star(grammar.Alt{ab, grammar.Token{IDs: []int32{1, 100}}})), z}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &grammar.Grammar{}
			for i, e := range rules {
				g.Add(fmt.Sprint("r", i), e)
			}
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 2))
				v, pieces, ids := randomVocabulary(rng)
				if !checkTexts(t, rng, g, 6, v, pieces, ids) {
					t.Fatal("the grammar has no texts")
				}
			}
		})
	}
}

// Where its tokens are spent and it cannot end, the text has no next token; and limits are refused where they cannot be
// counted.
func TestLimitsEnd(t *testing.T) {
	v, pieces := vocabulary(true)
	g := &grammar.Grammar{}
	g.Add("root", grammar.Seq{grammar.Limit{Expr: grammar.Lit("abc"), Tokens: 2}, grammar.Lit("z")})
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	c := a.New(true)
	for _, piece := range []string{"a", "b"} {
		if got := next(c, pieces); !slices.Equal(got, []string{piece}) || !c.Accept(id(pieces, piece)) {
			t.Fatalf("%q may come, want %q", got, piece)
		}
	}
	if got := next(c, pieces); len(got) > 0 || c.(Failer).Err() != nil || c.Accept(id(pieces, "c")) {
		t.Errorf("%q may come, %v", got, c.(Failer).Err())
	}
	c.Rollback(1)
	if got := next(c, pieces); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after a step back %q may come", got)
	}

	for want, e := range map[string]grammar.Expr{
		"within an intersection": grammar.Not{Expr: grammar.Limit{Expr: grammar.Lit("a"), Tokens: 1}},
		"begin with itself":      grammar.Limit{Expr: grammar.Alt{grammar.Seq{grammar.Ref(0), grammar.Lit("a")}, grammar.Lit("b")}, Tokens: 1},
		"at least 1":             grammar.Limit{Expr: grammar.Lit("a")},
	} {
		g := &grammar.Grammar{}
		g.Add("root", e)
		if _, err := v.Compile(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v: %v, want %q", e, err, want)
		}
	}
}
