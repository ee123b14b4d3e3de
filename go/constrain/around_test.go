package constrain_test

import (
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/regex"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Masks allow the tokens that may be accepted where most of them are of one run: characters of ASCII alone, counted
// ones near their bound, with states between that other characters lead out of, and within a code point.
func TestMasksAmongRuns(t *testing.T) {
	tok, v := load(t, "llama-bpe.gguf.zst")
	label := `[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?`
	for _, tt := range []struct{ pattern, text string }{
		{`"` + label + `(?:\.` + label + `){0,2}"`, `"host-name.example`},
		{`(?=[^@]{1,40}@)[A-Za-z0-9_+]+(?:\.[A-Za-z0-9_+]+)*@` + label, `joe.bloggs@example`},
		{`"(?:[^"\\ab]|a[^"\\b]*|b[^"\\a]*|ab[^"\\]+)"`, `"ab`},
		{`"(?!foo|bar)[^"\\\x00-\x1f]*"`, `"fool`},
		{`"(?!(?:type|kind|\$id|été)")[^"\\\x00-\x1f]*"(?:x|"y)`, `"kindness"x`},
		{`"(?!(?:type|kind|\$id|été)")[^"\\\x00-\x1f]*"(?:x|"y)`, `"éty`},
		{`(?:a|\.[^b]+)?[^"]*`, `.abb"`},
		{`[ -~]{0,20}\n`, `twelve letters`},
		{`(?:[^x]|xy)*z`, "日本x"},
		{`[^"]{3,9}"`, "a très"},
		{`"\p{L}+"`, `"très日本`},
		{`"(?:\p{Lu}\p{Ll}*,)+"(?:x|"y)`, `"Élan,Ж`},
		{`"[\p{Greek}ё0-9_]{2,9}"|"\p{Greek}+!|"é"`, `"αβ1`},
		{`[^а-я"]*"[^а-я]{0,3}`, `日本 É"`},
		{`(?:[^"À-ÿ]|[À-ÿ]!)*"`, `日é!本`},
		{`[^"]{2}"`, "日本"},
		{`"x?[^"]{0,9}"`, `"xy`},
		{`"(?:x|xx)[^"]{2,9}"`, `"xx`},
		{`"x{0,3}[^"]{0,5}"`, `"xxx`},
	} {
		e, err := regex.Full(tt.pattern, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []grammar.Expr{e, grammar.And{e}} {
			c := constrain.CompileAnew(t, v, &grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: e}}}).New(true)
			next := constrain.NewSet(tok.Len())
			for at, id := range append(tok.Encode(tt.text, tokenizer.Options{NoSpecial: true}), -1) {
				clear(next)
				c.Mask(next)
				for id := int32(at); id < int32(tok.Len()); id += 5 {
					took := c.Accept(id)
					if took {
						c.Rollback(1)
					}
					if took != next.Has(id) {
						t.Fatalf("%s, after %d tokens: %q may come: %v, and is taken: %v", tt.pattern, at, tok.Piece(id, false), next.Has(id), took)
					}
				}
				if id >= 0 && !c.Accept(id) {
					break // not how these texts go on
				}
			}
		}
	}
}
