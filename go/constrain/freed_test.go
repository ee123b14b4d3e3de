package constrain

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/quern-llm/quern/go/grammar"
)

// A vocabulary and its grammars are freed with the model, also where the last text of a grammar was told when to stop by
// what holds that text, as a request does.
func TestVocabularyIsFreed(t *testing.T) {
	t.Parallel()
	type request struct{ text Constraint }
	v := weak.Make(func() *Vocabulary {
		v := NewVocabulary(4, func(id int32) []byte { return []byte{'a' + byte(id)} }, nil)
		a, err := v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.Lit("bad")}}})
		if err != nil {
			t.Fatal(err)
		}
		r := &request{a.New(true)}
		r.text.(interface{ StopWhen(func() bool) }).StopWhen(func() bool { return r.text == nil })
		next := NewSet(4)
		r.text.Mask(next)
		if !r.text.Accept(1) {
			t.Fatal("the grammar refuses its text")
		}
		return v
	}())
	for end := time.Now().Add(time.Minute); v.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("the vocabulary is still there")
		}
		runtime.Gosched()
	}
}
