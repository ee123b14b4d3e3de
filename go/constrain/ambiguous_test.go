package constrain_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/tokenizer"
)

// layers is a grammar of n rules, each of which may have a character before or after the next one. Its texts are
// derived in exponentially many ways.
func layers(n int) string {
	var b strings.Builder
	b.WriteString("root ::= x0+\n")
	for i := range n {
		fmt.Fprintf(&b, "x%d ::= x%d | [a-z ] x%d | x%d [a-z ] | \"(\" x%d \")\"\n", i, i+1, i+1, i+1, i+1)
	}
	fmt.Fprintf(&b, "x%d ::= [a-z]\n", n)
	return b.String()
}

// Each token of a text that is derived in very many ways takes bounded time, or the text ends with ErrLimit.
func TestAmbiguous(t *testing.T) {
	tok, v := load(t, "llama-bpe.gguf.zst")
	const text = "a house that stays light and locked is a house that stays what it was before the fire came over the hill"
	ids := tok.Encode(text, tokenizer.Options{NoSpecial: true})
	for _, tt := range []struct {
		name, grammar string
		least         int // tokens that are made
	}{
		{"layers", layers(40), 1},
		{"pairs", `root ::= root root | [a-z] | " "`, len(ids)},
		{"triples", "root ::= a\na ::= a a a | a a | [a-z] | \" \"", len(ids)},
		{"mutual", "root ::= a+\na ::= b a | a b | [a-z ]\nb ::= a b | b a | [a-z ]", 3},
		{"starts", "root ::= (a | b | c)*\na ::= \"x\" a | [a-z ] a? | a b\nb ::= a c | [a-z ]\nc ::= b? a b? | [a-z ]", 1},
		{"anything", `root ::= ([a-z ]* [a-z ]* [a-z ]*)* root? [a-z ]*`, len(ids)},
		{"right", `root ::= [a-z ] root | [a-z ] [a-z ] root | [a-z ] [a-z ] [a-z ] root | [a-z ]`, len(ids)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			c := constrain.CompileAnew(t, v, parse(t, tt.grammar)).New(true)
			next := constrain.NewSet(tok.Len())
			begun, made, worst := cpuTime(), 0, time.Duration(0)
			for _, id := range ids {
				start := cpuTime()
				clear(next)
				c.Mask(next)
				took := next.Has(id) && c.Accept(id)
				worst = max(worst, cpuTime()-start)
				if err := c.(constrain.Failer).Err(); err != nil {
					if !next.Empty() && !next.Has(id) || c.Accept(id) {
						t.Error("a text that failed goes on")
					}
					t.Logf("token %d: %v", made, err)
					break
				}
				if !took {
					t.Fatalf("token %d, %q, is refused", made, tok.Piece(id, false))
				}
				made++
			}
			t.Logf("%d tokens took %v, one at most %v", made, cpuTime()-begun, worst)
			if made < tt.least || worst > 5*time.Second || cpuTime()-begun > 20*time.Second {
				t.Errorf("%d of %d tokens, want %d, and bounded time", made, len(ids), tt.least)
			}
		})
	}
}
