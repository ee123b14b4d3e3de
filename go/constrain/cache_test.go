package constrain

import (
	"context"
	"fmt"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// An automaton stays while it is compiled, whatever else is, so that equal grammars are compiled once; the others are
// bounded, and the bytes of their programs are counted.
func TestCacheBound(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	text := func(i int) *grammar.Grammar {
		lit := grammar.Lit(fmt.Sprintf("%0*d", 1+i%7, i))
		return &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: lit}}}
	}
	counted := func(when string, most int) {
		t.Helper()
		n := 0
		for _, item := range v.cache.items {
			if item.a != nil {
				n += item.a.size()
			}
		}
		if n != v.cache.bytes || n == 0 || len(v.cache.items) > most {
			t.Errorf("%s: %d bytes of %d items, counted as %d", when, n, len(v.cache.items), v.cache.bytes)
		}
	}
	compile := func(i int) *Automaton {
		t.Helper()
		a, err := v.Compile(text(i))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	key, err := digest("", text(0))
	if err != nil {
		t.Fatal(err)
	}
	busy := v.cache.take(key)
	busy.turn <- struct{}{} // as one that compiles it
	for i := range 3 * maxCached {
		compile(i + 1)
	}
	counted("beside one that is being compiled", maxCached)
	waiting := v.cache.take(key)
	if waiting != busy {
		t.Fatal("a grammar that is being compiled is compiled again")
	}
	busy.a, busy.err = newAutomaton(v, "", text(0))
	busy.done.Store(true)
	<-busy.turn
	v.cache.release(key, busy)
	v.cache.release(key, waiting)
	counted("with it", maxCached)
	if a := compile(0); a != busy.a {
		t.Error("it was compiled again")
	}
	last := compile(3 * maxCached)
	if compile(maxCached) == last || compile(3*maxCached) != last {
		t.Error("not the one that was used last stays")
	}

	// More than there may be stay as long as they are compiled, and no longer.
	var all []*cached
	sums := make([][32]byte, 2*maxCached)
	for i := range sums {
		if sums[i], err = digest("x", text(i)); err != nil {
			t.Fatal(err)
		}
		all = append(all, v.cache.take(sums[i]))
	}
	compile(1)
	if len(v.cache.items) != 2*maxCached {
		t.Errorf("%d items beside %d that are being compiled", len(v.cache.items), 2*maxCached)
	}
	for i, item := range all {
		v.cache.release(sums[i], item)
	}
	if len(v.cache.items) != 0 || v.cache.bytes != 0 {
		t.Errorf("%d items, %d bytes of what nobody compiled", len(v.cache.items), v.cache.bytes)
	}
}

// What ends before it is compiled leaves nothing.
func TestCacheOfEndedWork(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Lit("x")}}}
	g.Work = grammar.NewWork(ctx, 1)
	if _, err := v.Compile(g); !grammar.Overran(err) {
		t.Fatalf("got %v", err)
	}
	if n := len(v.cache.items); n != 0 {
		t.Errorf("%d items", n)
	}
	g.Work = nil
	if _, err := v.Compile(g); err != nil || len(v.cache.items) != 1 {
		t.Errorf("again: %v, %d items", err, len(v.cache.items))
	}
}
