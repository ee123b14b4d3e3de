package constrain

import (
	"errors"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// A meter takes so many steps and none more, and asks now and then whether anybody waits.
func TestMeter(t *testing.T) {
	spend := func(m *meter, n, times int) (done int, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = r.(exceeded).error
			}
		}()
		for range times {
			m.spend(n)
			done++
		}
		return done, nil
	}
	m := newMeter(5, nil)
	if n, err := spend(&m, 5, 1); n != 1 || err != nil || m.left != 0 {
		t.Errorf("5 of 5: %d, %v, %d left", n, err, m.left)
	}
	if _, err := spend(&m, 1, 1); !errors.Is(err, ErrLimit) {
		t.Errorf("6 of 5: %v", err)
	}
	m = newMeter(100, nil)
	if n, err := spend(&m, 1, 200); n != 100 || !errors.Is(err, ErrLimit) {
		t.Errorf("%d of 100, %v", n, err)
	}
	asked := 0
	m = newMeter(4*interval, func() bool { asked++; return false })
	if n, err := spend(&m, 1, 4*interval); n != 4*interval || err != nil || asked != 3 {
		t.Errorf("%d, %v, asked %d times", n, err, asked)
	}
	m = newMeter(1<<30, func() bool { return true })
	if n, err := spend(&m, 1, 1<<20); n != interval || !errors.Is(err, ErrStopped) {
		t.Errorf("nobody waits: ended after %d, %v", n, err)
	}
}

// As many automata are kept as there may be, those that were used last.
func TestAutomataAreKept(t *testing.T) {
	v, _ := vocabulary(true)
	grammars := make([]*grammar.Grammar, 17)
	compile := func(i int) *Automaton {
		if grammars[i] == nil {
			grammars[i] = &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Lit("abcdefghijklmnopqrstuvwxyz"[i:])}}}
		}
		a, err := v.Compile(grammars[i])
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	all := make([]*Automaton, 17)
	for i := range 16 {
		all[i] = compile(i)
	}
	for i := range 16 {
		if compile(i) != all[i] {
			t.Errorf("%d of 16 is not kept", i)
		}
	}
	compile(0) // all others were used before it
	all[16] = compile(16)
	for _, i := range []int{16, 0, 2, 15} {
		if compile(i) != all[i] {
			t.Errorf("%d of 17 is not kept", i)
		}
	}
	if compile(1) == all[1] {
		t.Error("the one that was used first is kept")
	}
	if len(v.cache.items) != 16 {
		t.Errorf("%d are kept", len(v.cache.items))
	}
	if bytes := v.CachedBytes(); bytes < 16*100 || bytes > 16<<20 {
		t.Errorf("%d bytes", bytes)
	}
}

// Grammars with other texts are others, those with the same the same.
func TestDigests(t *testing.T) {
	a, b := grammar.Lit("a"), grammar.Lit("b")
	known := map[[32]byte]grammar.Expr{}
	for _, e := range []grammar.Expr{
		a, b, grammar.Lit("ab"), grammar.Lit(""), grammar.Class{{Lo: 'a', Hi: 'a'}}, grammar.Class{{Lo: 'a', Hi: 'b'}}, grammar.Class{{Lo: 'b', Hi: 'b'}}, grammar.Class{},
		grammar.Class{{Lo: 'a', Hi: 'a'}, {Lo: 'c', Hi: 'c'}}, grammar.Seq{}, grammar.Seq{a}, grammar.Seq{a, b}, grammar.Seq{b, a}, grammar.Seq{grammar.Seq{a}, b}, grammar.Seq{grammar.Seq{a, b}},
		grammar.Alt{}, grammar.Alt{a, b}, grammar.And{a, b}, grammar.Not{Expr: a}, grammar.Not{Expr: b}, grammar.Repeat{Expr: a}, grammar.Repeat{Expr: a, Max: 1}, grammar.Repeat{Expr: a, Min: 1, Max: 1},
		grammar.Repeat{Expr: b, Max: 1}, grammar.Repeat{Expr: a, Max: -1}, grammar.Limit{Expr: a, Tokens: 1}, grammar.Limit{Expr: a, Tokens: 2}, grammar.Limit{Expr: b, Tokens: 1}, grammar.Ref(0), grammar.Ref(1),
		grammar.Token{IDs: []int32{1}}, grammar.Token{IDs: []int32{2}}, grammar.Token{IDs: []int32{1, 2}}, grammar.Token{IDs: []int32{1}, Not: true}, grammar.Token{},
	} {
		g := &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: e}}}
		sum, err := digest("", g)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := known[sum]; ok {
			t.Errorf("%#v is taken for %#v", e, other)
		}
		known[sum] = e
		g.Rules[0].Name = "other"
		if again, _ := digest("", g); again != sum {
			t.Errorf("%#v is another the second time", e)
		}
		for _, namespace := range []string{"x", "y"} {
			sum, _ := digest(namespace, g)
			if other, ok := known[sum]; ok {
				t.Errorf("%#v in %q is taken for %#v", e, namespace, other)
			}
			known[sum] = e
		}
		g.Add("more", a)
		if sum, _ = digest("", g); known[sum] != nil {
			t.Errorf("%#v with another rule is the same", e)
		}
	}
	// It nests as deep as it may.
	deep := grammar.Expr(a)
	for range maxNesting {
		deep = grammar.Repeat{Expr: deep}
	}
	if _, err := digest("", &grammar.Grammar{Rules: []grammar.Rule{{Expr: deep}}}); err != nil {
		t.Error(err)
	}
	if _, err := digest("", &grammar.Grammar{Rules: []grammar.Rule{{Expr: grammar.Repeat{Expr: deep}}}}); err == nil {
		t.Error("deeper than it may")
	}
}

// A stretch may come again, with what is left of the budget; a constraint within fails, stops and forks with it.
func TestBudgetsAgain(t *testing.T) {
	spell := func(id int32, yield func(byte)) { yield(byte(id)) }
	b := Budget{Stretch: Stretch{Open: "<", Shut: ">", Again: true}, Tokens: 4, Closing: []int32{'!', '>'}, N: 256, Spell: spell}
	c := Bound(nil, b)
	say := func(text string, free bool) {
		t.Helper()
		for i := range len(text) {
			if !c.Accept(int32(text[i])) {
				t.Fatalf("%q: refused at %d", text, i)
			}
		}
		if got := allowedBytes(c); (len(got) >= 256) != free {
			t.Fatalf("after %q: %q may come", text, got)
		}
	}
	say("a<b>c", true) // two of four
	c.Rollback(0)
	say("<x", true)
	fork := c.Fork()
	say("y", false)
	if got := allowedBytes(c); got != "!" || c.Accept('?') {
		t.Errorf("%q may come", got)
	}
	say("!", false)
	if got := allowedBytes(c); got != ">" {
		t.Errorf("%q may come", got)
	}
	say(">zzz", true)
	say("<", false) // nothing is left
	c = fork
	say("", true)
	say("y", false)
	c.Rollback(2)
	say("", true)

	// A mark may be cut anywhere, and begins anew after each stretch.
	b = Budget{Stretch: Stretch{Open: "<<<", Shut: ">>>"}, Tokens: 1, Closing: []int32{'!'}, N: 256, Spell: spell}
	c = Bound(nil, b)
	say("<<a<<", true)
	say("<x", false)
	b.Again = true
	c = Bound(nil, b)
	say("<<<", true)
	c = Bound(nil, Budget{Stretch: b.Stretch, Tokens: 1, N: 256, Spell: spell})
	say("<<<xxxx", true) // without a closing text it goes on

	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	a, err := v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Repeat{Expr: grammar.Class{{Lo: 'a', Hi: 'c'}}, Max: -1}}}})
	if err != nil {
		t.Fatal(err)
	}
	c = Bound(a.New(false), b)
	c.(Stopper).StopWhen(func() bool { return true })
	c.(*budget).inner.(*text).err = ErrLimit
	if err := c.(Failer).Err(); !errors.Is(err, ErrLimit) || c.Accept('a') {
		t.Errorf("a text that failed: %v", err)
	}
	if c.(*budget).inner.(*text).stop == nil {
		t.Error("it is not asked whether somebody waits")
	}
	if err := Bound(nil, b).(Failer).Err(); err != nil {
		t.Error(err)
	}
	c = Bound(a.New(false), b)
	if c.Accept('d') || !c.Accept('a') || len(c.(*budget).past) != 1 {
		t.Error("what the form does not have is taken, or counted")
	}
	f := c.Fork()
	if !f.Accept('b') || len(c.(*budget).past) != 1 || len(c.(*budget).inner.(*text).past) != 1 {
		t.Error("a fork changes the text that it is of")
	}
	c.Rollback(1)
	if len(c.(*budget).inner.(*text).past) != 0 {
		t.Error("the form is not taken back")
	}
}
