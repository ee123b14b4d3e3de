package constrain_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/regex"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Expressions with a loop of other code points in each state keep to the limit of an automaton, and allow
// the tokens that may be accepted, with a slice and without one.
func TestManyRuns(t *testing.T) {
	tok, v := load(t, "llama-bpe.gguf.zst")
	mark := tok.Encode("!", tokenizer.Options{NoSpecial: true})[0]
	var turns, choices strings.Builder
	for i := range 60 {
		excluded := string([]byte{'a' + byte(i%26), '0' + byte(i/26)})
		fmt.Fprintf(&turns, "[^!%s]*!", excluded)
		if i < 52 {
			fmt.Fprintf(&choices, "|%c[^!%s]*!", "AZaz"[i/26*2]+byte(i%26), excluded)
		}
	}
	for _, tt := range []struct {
		pattern string
		marks   int
	}{{turns.String(), 59}, {choices.String()[1:], 0}} {
		e, err := regex.Full(tt.pattern, 0)
		if err != nil {
			t.Fatal(err)
		}
		a := constrain.CompileAnew(t, v, &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: e}}})
		was := held()
		c := a.New(true)
		next := constrain.NewSet(tok.Len())
		for at := range tt.marks + 1 {
			clear(next)
			c.Mask(next)
			if at == 0 || at == tt.marks {
				for id := int32(0); id < int32(tok.Len()); id += 3 {
					took := c.Accept(id)
					if took {
						c.Rollback(1)
					}
					if took != next.Has(id) {
						t.Fatalf("%.20s, after %d marks: %q may come: %v, and is taken: %v", tt.pattern, at, tok.Piece(id, false), next.Has(id), took)
					}
				}
			}
			if at < tt.marks && !c.Accept(mark) {
				t.Fatalf("%.20s: mark %d is refused", tt.pattern, at)
			}
		}
		bytes, slices := a.Bytes()
		if grown := held() - was; bytes > 16<<20 || grown > 16<<20 || slices == 0 {
			t.Errorf("%.20s: %d bytes are counted with %d slices, and %d are held", tt.pattern, bytes, slices, grown)
		}
		runtime.KeepAlive(a)
		runtime.KeepAlive(c)
	}
}

// What is known of a class of code points is known for a vocabulary: in another grammar its masks make few states.
func TestClassesAreShared(t *testing.T) {
	tok, v := load(t, "llama-bpe.gguf.zst")
	var made []uint64
	for _, pattern := range []string{`"\p{L}+"`, `\["\p{L}+"\]`} {
		e, err := regex.Full(pattern, 0)
		if err != nil {
			t.Fatal(err)
		}
		a := constrain.CompileAnew(t, v, &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: grammar.And{e}}}})
		c := a.New(true)
		for _, id := range tok.Encode(pattern[:strings.IndexByte(pattern, '"')+1], tokenizer.Options{NoSpecial: true}) {
			if id == tok.Encode(`\`, tokenizer.Options{NoSpecial: true})[0] {
				continue
			}
			if !c.Accept(id) {
				t.Fatalf("%s: %q is refused", pattern, tok.Piece(id, false))
			}
		}
		next := constrain.NewSet(tok.Len())
		c.Mask(next)
		for text, want := range map[string]bool{"a": true, "ré": true, "日": true, "Д": true, "1": false, "«": false, `"`: false, `é"`: true} {
			if id := tok.Encode(text, tokenizer.Options{NoSpecial: true}); len(id) == 1 && next.Has(id[0]) != want {
				t.Errorf("%s: %q may come: %v", pattern, text, !want)
			}
		}
		made = append(made, a.Made())
	}
	if made[1] > 60 {
		t.Errorf("the masks made %d states, and those of another grammar %d", made[0], made[1])
	}
}

// held returns the bytes of what is in use.
func held() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
