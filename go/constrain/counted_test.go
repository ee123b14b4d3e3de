package constrain

import (
	"math/rand/v2"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/regex"
)

// Counting the characters of a pattern's texts while they are written gives the masks of the product that is written out.
func TestCounted(t *testing.T) {
	char := grammar.Any
	escaped := grammar.Alt{grammar.Class{{Lo: 0x20, Hi: '['}, {Lo: ']', Hi: 0x10FFFF}}, grammar.Seq{grammar.Lit(`\`), grammar.Runes(`n\`)}}
	more := []string{"ab", "abab", "a.b", "aé", "éé", "bbb", `\n`, `a\`, `n\n`, `"`, `a"`, `b",`, "€", "a€"}
	var ascii []string
	for b := range byte(0x80) {
		ascii = append(ascii, string(rune(b)))
	}
	for _, c := range []struct {
		pattern  string
		char     grammar.Expr
		min, max int
		written  bool // it is no easier to count
	}{
		{`(a|b){0,50}(\.(a|b){1,50})*`, char, 0, 60, false},
		{`(a|b){0,50}(\.(a|b){1,50})*`, char, 40, 60, false},
		{`(a|b){0,50}(\.(a|b){1,50}){2}`, char, 100, -1, false},
		{`(aa|bbb){3,40}`, char, 50, 53, false},
		{`(aa)*(b.{30}|b)`, char, 64, 64, true}, // an even number and one: none
		{`(aa)*(b.{30}|bé?)`, char, 60, 62, true},
		{`.{3}(é.{40}|a)[ab]*`, char, 0, 45, false},
		{`(a|é|€)*b{20}`, char, 5, 120, false},
		{`(?:a|b|\\n|\\\\)*(\.(a|b){1,50})*`, escaped, 2, 50, false},
		{`(?:[^\\]|\\n)*(b|\\\\.{8})`, escaped, 3, 70, false},
	} {
		e, err := regex.Full(c.pattern, 0)
		if err != nil {
			t.Fatal(err)
		}
		both := grammar.And{e, grammar.Repeat{Expr: c.char, Min: c.min, Max: c.max}}
		for _, whole := range []bool{true, false} { // whether each byte is a token
			words := more
			if !whole {
				words = append(ascii, append([]string{"é", "€"}, more...)...)
			}
			v, pieces := vocabulary(whole, words...)
			quoted := func(e grammar.Expr) (*Automaton, error) {
				return v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Seq{grammar.Lit(`"`), e, grammar.Lit(`"`)}}}})
			}
			a, err := quoted(both)
			b, err2 := quoted(grammar.Not{Expr: grammar.Not{Expr: both}})
			if err2 != nil && err != nil {
				continue
			}
			if err != nil || err2 != nil {
				t.Fatalf("%s: %v, written out %v", c.pattern, err, err2)
			}
			counts := false
			for _, i := range a.insts {
				counts = counts || i.op == opTurn
			}
			if counts == c.written && whole {
				t.Errorf("%s, %d to %d: written out: %v", c.pattern, c.min, c.max, !counts)
			}
			for seed := range uint64(6) {
				rng := rand.New(rand.NewPCG(seed, 4))
				x, y := a.New(true), b.New(true)
				text := ""
				for range 200 {
					p, q := NewSet(len(pieces)), NewSet(len(pieces))
					x.Mask(p)
					y.Mask(q)
					var may []int32
					for id := range int32(len(pieces)) {
						if p.Has(id) != q.Has(id) && whole {
							t.Fatalf("%s, %d to %d: %q is allowed after %q: %v, written out %v", c.pattern, c.min, c.max, pieces[id], text, p.Has(id), q.Has(id))
						}
						if p.Has(id) && (len(may) < 3 || len(pieces[id]) > 0 && pieces[id][0] < 0x80 || rng.IntN(8) == 0) {
							may = append(may, id)
						}
						if p.Has(id) && !q.Has(id) {
							t.Fatalf("%s: %q is allowed after %q", c.pattern, pieces[id], text)
						}
					}
					if len(may) == 0 {
						t.Fatalf("%s, %d to %d: nothing comes after %q", c.pattern, c.min, c.max, text)
					}
					id := may[rng.IntN(len(may))]
					if p, q := x.Accept(id), y.Accept(id); !p || !q {
						t.Fatalf("%s: %q is taken after %q: %v, written out %v", c.pattern, pieces[id], text, p, q)
					}
					if text += string(pieces[id]); id < 2 {
						break
					}
				}
			}
		}
	}
}
