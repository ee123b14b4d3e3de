package constrain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/gbnf"
)

// randomGrammar returns a grammar over the code points a, b, z and é, and tokens.
func randomGrammar(rng *rand.Rand, tokens int) *grammar.Grammar {
	g := &grammar.Grammar{}
	n := 1 + rng.IntN(4)
	var expr func(depth int, regular bool) grammar.Expr
	list := func(depth int, regular bool) (parts []grammar.Expr) {
		for range rng.IntN(4) {
			parts = append(parts, expr(depth-1, regular))
		}
		return parts
	}
	lit := func() grammar.Expr {
		b := ""
		for range rng.IntN(4) {
			b += []string{"a", "b", "z", "é"}[rng.IntN(4)]
		}
		return grammar.Lit(b)
	}
	expr = func(depth int, regular bool) grammar.Expr {
		k := rng.IntN(20)
		if depth == 0 {
			k %= 6
		}
		switch {
		case k < 3:
			return lit()
		case k < 4:
			return []grammar.Class{{{Lo: 'a', Hi: 'b'}}, {{Lo: 'a', Hi: 'a'}, {Lo: 'é', Hi: 'é'}}, {}, {{Lo: 'z', Hi: 'z'}}}[rng.IntN(4)]
		case k < 6 && regular:
			return lit()
		case k == 4 && rng.IntN(3) == 0:
			return grammar.Token{IDs: []int32{int32(1 + rng.IntN(tokens-1)), int32(1 + rng.IntN(tokens-1))}, Not: rng.IntN(4) == 0}
		case k < 6:
			return grammar.Ref(rng.IntN(n))
		case k < 11:
			return grammar.Seq(list(depth, regular))
		case k < 15:
			return grammar.Alt(list(depth, regular))
		case k == 15 && !regular && rng.IntN(2) == 0:
			return grammar.Limit{Expr: expr(depth-1, false), Tokens: 1 + rng.IntN(3)}
		case k < 18:
			r := grammar.Repeat{Expr: expr(depth-1, regular), Min: rng.IntN(3)}
			if r.Max = -1; rng.IntN(2) == 0 {
				r.Max = r.Min + rng.IntN(3)
			}
			return r
		case rng.IntN(4) > 0:
			return lit()
		case k == 18:
			return grammar.And{expr(min(depth-1, 2), true), expr(min(depth-1, 2), true)}
		default:
			return grammar.Not{Expr: expr(min(depth-1, 1), true)}
		}
	}
	for i := range n {
		g.Add(fmt.Sprint("r", i), expr(3, false))
	}
	return g
}

func randomVocabulary(rng *rand.Rand) (*Vocabulary, []string, []int32) {
	var words []string
	for range rng.IntN(12) {
		b := make([]byte, 1+rng.IntN(5))
		for i := range b {
			b[i] = "abz\xc3\xa9"[rng.IntN(5)]
		}
		words = append(words, string(b))
	}
	v, pieces := vocabulary(true, words...)
	ids := []int32{0, 1}
	for _, b := range []byte("abz\xc3\xa9") {
		ids = append(ids, 2+int32(b))
	}
	for i := range words {
		ids = append(ids, int32(258+i))
	}
	return v, pieces, ids
}

// Whatever the grammar and the vocabulary, the tokens that are allowed are those that a
// text can have next by definition.
func checkGrammar(t *testing.T, rng *rand.Rand) bool {
	v, pieces, ids := randomVocabulary(rng)
	return checkTexts(t, rng, randomGrammar(rng, len(pieces)), 4, v, pieces, ids)
}

// checkTexts checks the tokens of a random text of up to n.
func checkTexts(t *testing.T, rng *rand.Rand, g *grammar.Grammar, n int, v *Vocabulary, pieces []string, ids []int32) bool {
	a, err := v.Compile(g)
	if err != nil {
		if strings.Contains(err.Error(), "may begin with itself") {
			return false
		}
		if newReference(g, v, nil).some[0] {
			t.Fatalf("%#v: %v", g, err)
		}
		return false
	}
	c := a.New(true)
	var text []int32
	for range n {
		may := NewSet(len(pieces))
		c.Mask(may)
		var next []int32
		for _, id := range ids {
			r := newReference(g, v, append(text[:len(text):len(text)], id))
			want := r.viable()
			if id == 0 {
				want = want || newReference(g, v, text).whole()
			}
			if may.Has(id) != want {
				t.Fatalf("%#v\nafter %q: %q may come: %v, want %v", g, texts(pieces, text), pieces[id], may.Has(id), want)
			}
			took := c.Accept(id)
			if took != want {
				t.Fatalf("%#v\nafter %q: %q is taken: %v, want %v", g, texts(pieces, text), pieces[id], took, want)
			}
			if took {
				c.Rollback(1)
			}
			if want && id != 0 {
				next = append(next, id)
			}
		}
		if len(next) == 0 {
			break
		}
		id := next[rng.IntN(len(next))]
		if rng.IntN(4) == 0 {
			c = c.Fork()
		}
		c.Accept(id)
		text = append(text, id)
	}
	return true
}

func texts(pieces []string, ids []int32) (out []string) {
	for _, id := range ids {
		out = append(out, pieces[id])
	}
	return out
}

func TestAutomatonAgainstReference(t *testing.T) {
	checked := 0
	for seed := range uint64(150) {
		if t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if checkGrammar(t, rand.New(rand.NewPCG(seed, 1))) {
				checked++
			}
		}); t.Failed() {
			break
		}
	}
	if checked < 80 {
		t.Errorf("only %d grammars have texts", checked)
	}
}

// Tokens may end several rules at once, some of them after a first byte.
func TestTokensAcrossRules(t *testing.T) {
	v, pieces := vocabulary(true, " =", " )=", ")  ) =", " ) ", "))", ")=", "=\n")
	g := &grammar.Grammar{}
	spaces := grammar.Repeat{Expr: grammar.Lit(" "), Max: -1}
	g.Add("line", grammar.Seq{grammar.Ref(1), grammar.Lit("=\n")})
	g.Add("sum", grammar.Seq{grammar.Ref(2), grammar.Repeat{Expr: grammar.Seq{grammar.Lit("+"), grammar.Ref(2)}, Max: -1}})
	g.Add("term", grammar.Alt{grammar.Seq{grammar.Lit("x"), spaces}, grammar.Seq{grammar.Lit("("), grammar.Ref(1), grammar.Lit(")"), spaces}})
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	c := a.New(true)
	for _, tt := range []struct {
		token string
		want  []string
	}{
		{"x", []string{" ", " =", "+", "=", "=\n"}},
		{"", nil}, // back
		{"(", []string{"(", "x"}},
		{"(", []string{"(", "x"}},
		{"x", []string{" ", " ) ", ")", ")  ) =", "))", "+"}},
		{"))", []string{" ", " =", "+", "=", "=\n"}},
		{" =", []string{"\n"}},
		{"\n", []string{"$"}},
	} {
		if tt.token == "" {
			c.Rollback(1)
			continue
		}
		if !c.Accept(id(pieces, tt.token)) {
			t.Fatalf("%q is refused", tt.token)
		}
		if got := next(c, pieces); !slices.Equal(got, tt.want) {
			t.Errorf("after %q may come %q, want %q", tt.token, got, tt.want)
		}
	}
}

func FuzzAutomaton(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		steps, maxSteps = 0, 50_000
		clear(nothings) // which would grow for as long as the fuzzer runs
		defer func() {
			maxSteps = 0
			if e := recover(); e != nil && e != any(tooLong{}) {
				panic(e)
			}
		}()
		checkGrammar(t, rand.New(rand.NewPCG(seed, 2)))
	})
}

// A text whose next tokens need too many states fails, its memory is freed, and others go on.
func TestLimit(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	g, err := gbnf.Parse(`root ::= "x" ("ab" | "ac"+ | [d-f]{2,9} "g") | "y" "z"`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	c, other := a.New(false), a.New(false)
	if !c.Accept('x') || !other.Accept('y') {
		t.Fatal("a beginning is refused")
	}
	was := a.limit
	a.limit = 1
	next := NewSet(256)
	if c.Mask(next); !next.Empty() || c.Accept('a') || c.(Failer).Err() != ErrLimit || a.bytes != 0 {
		t.Errorf("a text that needs too much goes on: %v, with %d bytes", c.(Failer).Err(), a.bytes)
	}
	a.limit = was
	if other.Mask(next); !next.Has('z') || !other.Accept('z') || other.(Failer).Err() != nil {
		t.Errorf("another text: %v", other.(Failer).Err())
	}
}

// A regular part of which each state is many instructions is refused before they are kept.
func TestRegularRefuses(t *testing.T) {
	v, _ := vocabulary(true)
	many := grammar.Repeat{Expr: grammar.Repeat{Expr: grammar.Lit("a"), Max: 1}, Min: 19_900, Max: 19_900}
	g := &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.And{many, grammar.Not{Expr: grammar.Lit("")}}}}}
	if _, err := newProgram("", g, v); err == nil || !strings.Contains(err.Error(), "its states have more than") {
		t.Errorf("%v", err)
	}
	letter := grammar.Class{{Lo: 'a', Hi: 'b'}} // which letter is 16 before the end takes 65,536 states
	last := grammar.Seq{grammar.Repeat{Expr: letter, Max: -1}, grammar.Lit("a"), grammar.Repeat{Expr: letter, Min: 15, Max: 15}}
	g = &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.And{last, grammar.Not{Expr: grammar.Lit("")}}}}}
	if _, err := newProgram("", g, v); err == nil || !strings.Contains(err.Error(), "more than 20000 states") {
		t.Errorf("too many states: %v", err)
	}
}

// Which rules may be empty takes time in proportion to their instructions, in whatever order
// the rules have it: rule i here is empty because rule i+1 is.
func TestEmptyInOrder(t *testing.T) {
	const rules = 50_000
	p := &program{}
	for i := range int32(rules - 1) {
		p.insts = append(p.insts, inst{op: opCall, arg: i + 1, out: 2*i + 1, alt: -1}, inst{op: opMatch, out: -1, alt: -1})
		p.rules = append(p.rules, rule{start: 2 * i})
	}
	p.insts = append(p.insts, inst{op: opMatch, out: -1, alt: -1})
	p.rules = append(p.rules, rule{start: int32(len(p.insts) - 1)})
	p.findEmpty()
	for i := range p.rules {
		if !p.rules[i].empty {
			t.Fatalf("rule %d is not empty", i)
		}
	}
}
