package constrain

import (
	"runtime"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/gbnf"
)

func compiled(t *testing.T, v *Vocabulary, text string) *Automaton {
	t.Helper()
	g, err := gbnf.Parse(text, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := v.Compile(g)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The work for a text is bounded, however its calls are distributed, and a forecast is not worth its end.
func TestWorkOfAText(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	a := compiled(t, v, `root ::= root root | [a-z]`)
	c := a.New(false).(*text)
	for range 30 {
		if !c.Accept('a') {
			t.Fatal("refused")
		}
	}
	if c.tokens.left != forTokens.left {
		t.Errorf("%d steps are left: few were done", c.tokens.left)
	}
	c.masks.left = 20
	next := NewSet(256)
	if c.Mask(next); c.Err() != ErrLimit || !next.Empty() || c.Accept('a') {
		t.Errorf("beyond its steps: %v, %v", c.Err(), next)
	}

	c = a.New(false).(*text)
	c.masks.left, c.tokens.left = 0, 1000
	for i := range 30 { // each token adds something, so that a text may be long
		if !c.Accept('a') {
			t.Fatalf("token %d of a long text: %v", i, c.Err())
		}
		if c.Mask(next); c.Err() != nil || !next.Has('a') {
			t.Fatalf("the mask after token %d of a long text: %v", i, c.Err())
		}
	}

	v.Encode = func(text string) (ids []int32) { return make([]int32, len(text)) }
	c = compiled(t, v, `root ::= "a" (root root | "a" | root "a") `).New(false).(*text)
	if n := len(c.Forecast(nil)); n != 1 { // the second may be merged with what follows
		t.Errorf("%d tokens are forecast", n)
	}
	c.tokens.left = 3
	if n := len(c.Forecast(nil)); n != 0 || c.Err() != nil {
		t.Errorf("a forecast beyond the steps has %d tokens: %v", n, c.Err())
	}
	c.tokens.left = 1 << 20
	if n := len(c.Forecast(nil)); n != 0 || !c.Accept('a') {
		t.Errorf("after a forecast that took too long: %d tokens, %v", n, c.Err())
	}
}

// What nobody waits for is stopped within a call.
func TestStopped(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	c := compiled(t, v, "root ::= a+\na ::= b a | a b | [a-z]\nb ::= a b | b a | [a-z]").New(false).(*text)
	gone := false
	c.StopWhen(func() bool { return gone })
	for range 120 {
		if !c.Accept('a') {
			t.Fatal(c.Err())
		}
	}
	f := c.Fork()
	gone = true
	for i := 0; c.Accept('a'); i++ {
		if i == 1_000 {
			t.Fatal("it goes on")
		}
	}
	if c.Err() != ErrStopped {
		t.Error(c.Err())
	}
	if !f.Accept('a') {
		t.Errorf("another text: %v", f.(Failer).Err())
	}
}

// The stacks of texts are counted while they exist, and bounded.
func TestStacksAreCounted(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	a := compiled(t, v, `root ::= "(" root ")" | "x"`)
	c := a.New(false)
	was := v.stacks.Load()
	for range 1000 {
		c.Accept('(')
	}
	deep := v.stacks.Load()
	if deep-was < 999*int64(nodeBytes) || uint64(deep) > v.CachedBytes() {
		t.Errorf("1000 stacks count %d bytes, of %d", deep-was, v.CachedBytes())
	}
	f := c.Fork()
	if v.stacks.Load() != 2*deep {
		t.Errorf("a fork counts %d bytes", v.stacks.Load()-deep)
	}
	f.Rollback(1000)
	if v.stacks.Load() != deep {
		t.Errorf("rolled back: %d bytes, want %d", v.stacks.Load(), deep)
	}
	for range 20_000 {
		c.Accept('(')
	}
	if c.(Failer).Err() != nil || c.Accept('(') {
		t.Errorf("beyond the depth: %v", c.(Failer).Err())
	}
	runtime.KeepAlive(c)
	for end := time.Now().Add(time.Minute); v.stacks.Load() != 0; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatalf("%d bytes are counted of no text", v.stacks.Load())
		}
	}

	b := compiled(t, v, `root ::= "(" root ")" | "x"`).New(false).(*text)
	b.tally.set(maxGraph - nodeBytes)
	if b.Accept('('); !b.Accept('(') || b.Accept('(') || b.Err() != ErrLimit {
		t.Errorf("beyond the bytes: %v", b.Err())
	}
}

// What is compiled in a namespace is found there alone; regular parts that are in none are found by all.
func TestNamespaces(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	digits := grammar.Repeat{Expr: grammar.Class{{Lo: '0', Hi: '9'}}, Min: 1, Max: 3}
	g := func() *grammar.Grammar {
		return &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.And{digits, grammar.Not{Expr: grammar.Lit("042")}}}}}
	}
	made := map[string]*Automaton{}
	for _, space := range []string{"", "a", "b"} {
		a, err := v.CompileFor(space, g())
		if err != nil {
			t.Fatal(err)
		}
		if b, err := v.CompileFor(space, g()); a != b || err != nil {
			t.Errorf("%q: compiled twice", space)
		}
		for other, b := range made {
			if a == b {
				t.Errorf("%q has what %q compiled", space, other)
			}
		}
		made[space] = a
	}
	if v.cache.items == nil || len(v.cache.items) != 3 {
		t.Errorf("%d are cached", len(v.cache.items))
	}

	var k dfas
	built := func(space, text string) (built bool) {
		k.get(space, grammar.And{grammar.Lit(text)}, func() *dfa { built = true; return &dfa{} })
		return built
	}
	for i, tt := range []struct {
		space, text string
		want        bool
	}{{"", "x", true}, {"a", "x", false}, {"a", "y", true}, {"a", "y", false}, {"b", "y", true}, {"", "y", true}, {"c", "y", false}} {
		if got := built(tt.space, tt.text); got != tt.want {
			t.Errorf("%d: %q in %q is made: %v", i, tt.text, tt.space, got)
		}
	}
}
