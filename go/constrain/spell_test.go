package constrain

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// lacking returns a vocabulary of words alone, of which 0 ends a text and 1 prints nothing.
func lacking(words ...string) (*Vocabulary, []string) {
	pieces := append([]string{"", ""}, words...)
	return NewVocabulary(len(pieces), func(id int32) []byte { return []byte(pieces[id]) }, []int32{0}), pieces
}

// Where tokens do not spell each byte, no text of allowed tokens comes to a dead end, and masks with slices are those
// without.
func TestSpelledTextsEnd(t *testing.T) {
	compiled, long := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		words := []string{"a", "b", "z", "\xc3", "\xa9", "é", "ab", "ba", "zz", "aé", "éa", "\xa9b", "a\xc3", "abz"}
		rng.Shuffle(len(words), func(i, k int) { words[i], words[k] = words[k], words[i] })
		v, pieces := lacking(words[:3+rng.IntN(len(words)-3)]...)
		g := randomGrammar(rng, len(pieces))
		a, err := v.Compile(g)
		if err != nil || slices.ContainsFunc(a.rules, func(r rule) bool { return r.most > 0 }) { // limits do end a text too soon
			continue
		}
		compiled++
		plain, err := newAutomaton(v, "", g)
		if err != nil {
			t.Fatal(err)
		}
		for i := range plain.loops {
			plain.loops[i].run = run{}
		}
		c, d := a.New(true), plain.New(true)
		var text []string
		for range 12 {
			next, other := NewSet(len(pieces)), NewSet(len(pieces))
			c.Mask(next)
			d.Mask(other)
			if !slices.Equal(next, other) {
				t.Fatalf("seed %d: %#v\nof %q after %q: %b, without slices %b", seed, g, pieces, text, next, other)
			}
			var may []int32
			for id := range int32(len(pieces)) {
				if next.Has(id) {
					may = append(may, id)
				}
			}
			if len(may) == 0 {
				t.Fatalf("seed %d: %#v\nof %q is at a dead end after %q", seed, g, pieces, text)
			}
			id := may[rng.IntN(len(may))]
			if !c.Accept(id) || !d.Accept(id) {
				t.Fatalf("seed %d: %#v\nof %q after %q: %q is allowed and not taken", seed, g, pieces, text, pieces[id])
			}
			if id == 0 {
				break
			}
			text = append(text, pieces[id])
		}
		if len(text) > 2 {
			long++
		}
	}
	if compiled < 1000 || long < 200 {
		t.Errorf("%d grammars, %d long texts", compiled, long)
	}
}

// Bytes that no token has are what no text has: what does without them is allowed.
func TestBytesWithoutTokens(t *testing.T) {
	v, pieces := lacking("a", "b", "ab", " ", "é", "日", "xa")
	for _, tt := range []struct {
		e    grammar.Expr
		text string
	}{
		{grammar.Repeat{Expr: grammar.Any, Min: 1, Max: 10}, "aéab日b"},
		{grammar.Repeat{Expr: grammar.Any, Min: 3, Max: 1024}, "ab é"},
		{grammar.Repeat{Expr: grammar.Any, Min: 100, Max: -1}, strings.Repeat("ab", 50)},
		{grammar.Repeat{Expr: grammar.Class{{Lo: 'a', Hi: 'f'}}, Min: 70, Max: 200}, strings.Repeat("a", 70)},
		{grammar.Alt{grammar.Lit("never"), grammar.Lit("ab")}, "ab"},
		{grammar.Repeat{Expr: grammar.Seq{grammar.Lit("x"), grammar.Lit("a")}, Min: 40, Max: 80}, strings.Repeat("xa", 40)},
	} {
		g := &grammar.Grammar{}
		g.Add("root", tt.e)
		a, err := v.Compile(g)
		if err != nil {
			t.Errorf("%v: %v", tt.e, err)
			continue
		}
		c := a.New(true)
		for text := tt.text; text != ""; {
			id := int32(0)
			for k, p := range pieces {
				if strings.HasPrefix(text, p) && len(p) > len(pieces[id]) {
					id = int32(k)
				}
			}
			next := NewSet(len(pieces))
			if c.Mask(next); !next.Has(id) || !c.Accept(id) {
				t.Fatalf("%v: %q is not allowed before %q", tt.e, pieces[id], text)
			}
			text = text[len(pieces[id]):]
		}
		if next := NewSet(len(pieces)); !func() bool { c.Mask(next); return next.Has(0) }() {
			t.Errorf("%v: %q may not end", tt.e, tt.text)
		}
	}
	for _, e := range []grammar.Expr{grammar.Lit("axe"), grammar.Repeat{Expr: grammar.Lit("xab"), Min: 100, Max: 200}} {
		g := &grammar.Grammar{}
		g.Add("root", grammar.Seq{e, grammar.Lit("x")})
		if _, err := v.Compile(g); err == nil || !strings.Contains(err.Error(), "no tokens to spell") {
			t.Errorf("%v: %v", e, err)
		}
	}
}
