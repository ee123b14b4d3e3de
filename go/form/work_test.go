package form_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/cputime"
	"github.com/quern-llm/quern/go/tokenizer"
)

// list returns n elements with commas between them.
func list(n int, element func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = element(i)
	}
	return strings.Join(all, ",")
}

func demoTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Parse(demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Forms whose parts are many, or meet each other in many ways, are compiled or refused in seconds.
func TestHostileForms(t *testing.T) {
	tok := demoTokenizer(t)
	name := func(i int) string { return fmt.Sprintf(`"n%d"`, i) }
	for _, tt := range []struct {
		name string
		form form.Form
	}{
		{"required", form.Form{Kind: form.Schema, Text: `{"type":"object","required":[` + list(100_000, name) + `]}`}},
		{"described", form.Form{Kind: form.Schema, Text: `{"type":"object","properties":{` + list(30_000, func(i int) string { return name(i) + `:{"type":"null"}` }) + `},"required":[` + list(30_000, name) + `]}`}},
		{"optional", form.Form{Kind: form.Schema, Text: `{"type":"object","properties":{` + list(30_000, func(i int) string { return name(i) + `:{}` }) + `}}`}},
		{"references", form.Form{Kind: form.Schema, Text: `{"$defs":{` + list(20_000, func(i int) string {
			return fmt.Sprintf(`"d%d":{"properties":{"x":{"$ref":"#/$defs/d%d"}},"required":["x"]}`, i, (i+1)%20_000)
		}) + `},"$ref":"#/$defs/d0"}`}},
		{"branches", form.Form{Kind: form.Schema, Text: `{"$defs":{` + list(9, func(i int) string {
			return fmt.Sprintf(`"d%d":{"type":"object","properties":{%s},"required":[%s]}`, i,
				list(12, func(j int) string { return fmt.Sprintf(`"n%d":{"$ref":"#/$defs/d%d"}`, j, min(i+1, 8)) }), list(12, name))
		}) + `},"$ref":"#/$defs/d0"}`}},
		{"listed", form.Form{Kind: form.Schema, Text: `{"enum":[` + list(200_000, name) + `]}`}},
		{"patterns", form.Form{Kind: form.Schema, Text: `{"type":"string","pattern":"^(a|b|ab|ba|aab)*$","enum":["` + strings.Repeat("ab", 20_000) + `","` + strings.Repeat("ba", 20_000) + `"]}`}},
		{"products", form.Form{Kind: form.Schema, Text: `{"type":"string","allOf":[` + list(12, func(i int) string { return fmt.Sprintf(`{"pattern":"^(\\p{L}|\\p{N})*\\p{Lu}(.){%d}$"}`, i) }) + `]}`}},
		{"formats", form.Form{Kind: form.Schema, Text: `{"properties":{` + list(3000, func(i int) string {
			return fmt.Sprintf(`"p%d":{"type":"string","pattern":"%d[a-z]+(foo|bar)?","format":"email"}`, i, i)
		}) + `}}`}},
		{"alternatives", form.Form{Kind: form.Grammar, Text: "root ::= " + strings.Repeat("[a-z] | [a-zA-Z] \"b\" | ", 100_000) + "[x]"}},
		{"rules", form.Form{Kind: form.Grammar, Text: "root ::= x0\n" + strings.ReplaceAll(list(20_000, func(i int) string {
			return fmt.Sprintf("x%d ::= x%d x%d | \"\"\n", i, (i+1)%20_000, (i+2)%20_000)
		}), ",", "")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var err error
			took := cputime.Of(func() {
				_, err = tt.form.Compile(t.Context(), tok, form.Vocabulary(tok), nil, nil)
			})
			runtime.ReadMemStats(&after)
			t.Logf("%v, %d MB, %v", took, (after.TotalAlloc-before.TotalAlloc)>>20, err)
			if took > 20*time.Second || after.HeapSys > before.HeapSys+(1<<30) {
				t.Errorf("it took %v", took)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A form is compiled for as long as somebody waits for it. Others do not wait for one that takes long, and who waits for
// the same one gets it.
func TestCompileEnds(t *testing.T) {
	tok := demoTokenizer(t)
	v := form.Vocabulary(tok)
	slow := func(i int) *form.Form { // some seconds
		return &form.Form{Kind: form.Schema, Text: `{"type":"string","allOf":[` + list(12, func(k int) string { return fmt.Sprintf(`{"pattern":"^(\\p{L}|\\p{N}|%d)*\\p{Lu}(.){%d}$"}`, i, k) }) + `]}`}
	}
	errLeft := errors.New("left")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			ctx, leave := context.WithCancelCause(t.Context())
			time.AfterFunc(200*time.Millisecond, func() { leave(errLeft) })
			begun := time.Now()
			_, err := slow(i/2).Compile(ctx, tok, v, nil, nil)
			if took := time.Since(begun); !errors.Is(err, errLeft) || took > 20*time.Second {
				t.Errorf("%v after %v", err, took)
			}
		})
	}
	begun := time.Now()
	if _, err := (&form.Form{Kind: form.Schema, Text: `{"type":"object","properties":{"a":{"type":"integer"}}}`}).Compile(t.Context(), tok, v, nil, nil); err != nil {
		t.Error(err)
	}
	t.Logf("one beside them took %v", time.Since(begun))
	all.Wait()

	// Who leaves does not end it for another.
	same := `{"enum":[` + list(100_000, func(i int) string { return fmt.Sprint(i) }) + `]}`
	ctx, leave := context.WithCancelCause(t.Context())
	for i := range 3 {
		all.Go(func() {
			in := t.Context()
			if i == 0 {
				in = ctx
			}
			_, err := (&form.Form{Kind: form.Schema, Text: same}).Compile(in, tok, v, nil, nil)
			if err != nil && (i > 0 || !errors.Is(err, errLeft)) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	leave(errLeft)
	all.Wait()

	// Nor does the grammar of a tool's input outlast who asked for it.
	if _, err := form.Input(ctx, "lark", `start: "a"`); !errors.Is(err, errLeft) {
		t.Errorf("the input of a tool: %v", err)
	}
}

// What is compiled is kept within a bound, whoever asks, and counted.
func TestProgramsAreBounded(t *testing.T) {
	tok := demoTokenizer(t)
	v := form.Vocabulary(tok)
	most := uint64(0)
	for i := range 6 {
		f := &form.Form{Kind: form.Grammar, Text: fmt.Sprintf("root ::= \"%d\" ", i) + strings.Repeat("| [a-z] | [a-zA-Z] \"b\" ", 90_000)}
		if _, err := f.Compile(t.Context(), tok, v, nil, nil); err != nil {
			t.Fatal(err)
		}
		most = max(most, v.CachedBytes())
	}
	if most < 10<<20 || most > 100<<20 {
		t.Errorf("%d MB are counted", most>>20)
	}
}
