package constrain

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// orders returns the texts of e as alternatives of sequences, each of up to n parts.
func orders(e grammar.AnyOrder, had uint32, n int) grammar.Alt {
	out := grammar.Alt{}
	if had != 0 && had&(1<<e.Must-1) == 1<<e.Must-1 {
		out = append(out, grammar.Lit(""))
	}
	if n == 0 {
		return out
	}
	more := func(part grammar.Expr, had uint32) {
		seq := grammar.Seq{part, orders(e, had|1<<31, n-1)}
		if had>>31 != 0 {
			seq = append(grammar.Seq{e.Between}, seq...)
		}
		out = append(out, seq)
	}
	for i, part := range e.Parts {
		if before := uint32(1)<<i - 1; had>>i&1 == 0 && (!e.Listed || i >= e.Must || had&before == before) {
			more(part, had|1<<i)
		}
	}
	if e.More != nil {
		more(e.More, had)
	}
	return out
}

// What may come in any order is what may come in one of the orders, written out.
func TestAnyOrder(t *testing.T) {
	v, pieces := vocabulary(true, "ab", "ba", ",a", "a,", "b,z", ",,", "é,", "az", "za,b", "bb")
	ids := []int32{0, 'a' + 2, 'b' + 2, 'z' + 2, ',' + 2, 0xC3 + 2, 0xA9 + 2}
	for i := range 10 {
		ids = append(ids, int32(258+i))
	}
	parts := []grammar.Expr{
		grammar.Lit("a"), grammar.Lit("b"), grammar.Lit("ab"), grammar.Lit("é"), grammar.Class{{Lo: 'a', Hi: 'b'}}, grammar.Lit("zz"),
		grammar.Repeat{Expr: grammar.Lit("z"), Min: 1, Max: 2}, grammar.Repeat{Expr: grammar.Class{{Lo: 'a', Hi: 'a'}}, Min: 1, Max: 90}, grammar.Alt{},
	}
	tried := 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 2))
		e := grammar.AnyOrder{Between: []grammar.Expr{grammar.Lit(","), grammar.Alt{grammar.Lit(","), grammar.Lit("z")}}[rng.IntN(2)]}
		for range rng.IntN(4) {
			e.Parts = append(e.Parts, parts[rng.IntN(len(parts))])
		}
		e.Must = rng.IntN(len(e.Parts) + 1)
		e.Listed = seed%3 == 0
		if rng.IntN(3) == 0 {
			e.More = parts[rng.IntN(len(parts))]
		}
		const most = 6
		whole := &grammar.Grammar{}
		written := &grammar.Grammar{}
		switch rng.IntN(3) {
		case 0:
			whole.Add("root", e)
			written.Add("root", orders(e, 0, most))
		case 1: // within a counted loop
			whole.Add("root", grammar.Repeat{Expr: grammar.Seq{grammar.Lit("b"), e}, Min: 1, Max: 70})
			written.Add("root", grammar.Repeat{Expr: grammar.Seq{grammar.Lit("b"), orders(e, 0, most)}, Min: 1, Max: 70})
		default: // within itself
			inner := e
			inner.Parts = append(slices.Clone(e.Parts), grammar.Seq{grammar.Lit("b"), grammar.Ref(0), grammar.Lit("b")})
			whole.Add("root", inner)
			written.Add("root", orders(inner, 0, most))
		}
		a, err := v.Compile(whole)
		b, err2 := v.Compile(written)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("seed %d: %#v: %v, written out %v", seed, whole, err, err2)
		}
		if err != nil {
			continue
		}
		tried++
		c, d := a.New(true), b.New(true)
		length := 0
		for range 8 {
			x, y := NewSet(len(pieces)), NewSet(len(pieces))
			c.Mask(x)
			d.Mask(y)
			var may []int32
			for _, id := range ids {
				if x.Has(id) != y.Has(id) {
					t.Fatalf("seed %d: %#v: %q is allowed: %v, written out %v", seed, whole, pieces[id], x.Has(id), y.Has(id))
				}
				if x.Has(id) {
					may = append(may, id)
				}
			}
			if len(may) == 0 {
				t.Fatalf("seed %d: %#v is at a dead end", seed, whole)
			}
			id := may[rng.IntN(len(may))]
			if length += len(pieces[id]); length > 5 || id == 0 { // what is written out is bounded
				break
			}
			if !c.Accept(id) || !d.Accept(id) {
				t.Fatalf("seed %d: %#v: %q is not taken", seed, whole, pieces[id])
			}
		}
	}
	if tried < 300 {
		t.Errorf("%d grammars", tried)
	}
}
