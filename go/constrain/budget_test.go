package constrain

import (
	"sync/atomic"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// allowed returns the bytes that may come next.
func allowedBytes(c Constraint) string {
	s := NewSet(256)
	c.Mask(s)
	out := ""
	for id := range int32(256) {
		if s.Has(id) {
			out += string(rune(id))
		}
	}
	return out
}

// A budget that ends within a character waits for its end, and what the form does not have
// of the closing text is left out.
func TestBudgetWithinAForm(t *testing.T) {
	v := NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
	thought := grammar.Repeat{Expr: grammar.Class{{Lo: 'a', Hi: 'z'}, {Lo: 'é', Hi: 'é'}}, Min: 0, Max: -1}
	a, err := v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Seq{thought, grammar.Lit(">>{}")}}}})
	if err != nil {
		t.Fatal(err)
	}
	spell := func(id int32, yield func(byte)) { yield(byte(id)) }
	b := Budget{Stretch: Stretch{Open: "<<", Shut: ">>", Begun: true}, Tokens: 2, Closing: []int32{'>', '>', '!'}, N: 256, Spell: spell}
	c := Bound(a.New(false), b)
	for _, step := range []struct {
		id   byte
		want string
	}{{'a', ""}, {"é"[0], "©"}, {"é"[1], ">"}, {'>', ">"}, {'>', "{"}, {'{', "}"}, {'}', ""}} {
		if !c.Accept(int32(step.id)) {
			t.Fatalf("%q is refused", step.id)
		}
		if got := allowedBytes(c); step.want != "" && got != step.want || step.id == '}' && got != "" {
			t.Errorf("after %q: %q may come, want %q", step.id, got, step.want)
		}
	}
}

func TestBudget(t *testing.T) {
	spell := func(id int32, yield func(byte)) { yield(byte(id)) }
	var now atomic.Bool
	b := Budget{Stretch: Stretch{Open: "<<", Shut: ">>"}, Tokens: 3, Closing: []int32{'!', '>', '>'}, N: 256, Spell: spell, Now: &now}
	c := Bound(nil, b)
	say := func(text string) {
		t.Helper()
		for i := range len(text) {
			if !c.Accept(int32(text[i])) {
				t.Fatalf("%q: refused at %d", text, i)
			}
		}
	}
	say("a<b<<")
	fork := c.Fork()
	say("xy")
	if got := allowedBytes(c); len(got) < 256 {
		t.Errorf("before the budget is spent: %q", got)
	}
	say("z")
	if got := allowedBytes(c); got != "!" || c.Accept('x') {
		t.Errorf("when it is: %q", got)
	}
	say("!>>")
	if got := allowedBytes(c); len(got) < 256 {
		t.Errorf("after it: %q", got)
	}
	c.Rollback(4)
	if got := allowedBytes(c); len(got) < 256 {
		t.Errorf("rolled back: %q", got)
	}
	c = fork
	say(">>xxxxxx<<yyyy")
	if got := allowedBytes(c); len(got) < 256 {
		t.Errorf("a stretch that ended by itself: %q", got)
	}
	b.Begun, b.Tokens = true, -1
	c = Bound(nil, b)
	say("xxxxxxx")
	now.Store(true)
	if got := allowedBytes(c); got != "!" {
		t.Errorf("ended on request: %q", got)
	}
	b.Tokens = 0
	if got := allowedBytes(Bound(nil, b)); got != "!" {
		t.Errorf("nothing to spend: %q", got)
	}
}
