package form_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
	"github.com/quern-llm/quern/go/tokenizer"
)

// After Prepare a schema with a format takes what its own automaton does, and not what the format's does, which is
// more than 10,000 allocations.
func TestPrepare(t *testing.T) {
	if err := form.Prepare(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"email", "hostname", "uri"} {
		v := constrain.NewVocabulary(256, func(id int32) []byte { return []byte{byte(id)} }, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g, err := jsonschema.Grammar(fmt.Appendf(nil, `{"type":"array","items":{"type":"string","format":%q}}`, name), jsonschema.Options{})
		if err == nil {
			_, err = v.Compile(g)
		}
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if made := after.Mallocs - before.Mallocs; made > 5000 {
			t.Errorf("%s: %d allocations", name, made)
		}
	}
}

// After Warm, the first mask within a string takes less than it took to make what all strings share.
func TestWarm(t *testing.T) {
	tok := small(t)
	made := func(warm bool) uint64 {
		v := form.Vocabulary(tok)
		if warm {
			form.Warm(tok.Len(), func() *constrain.Vocabulary { return v })
		}
		a, err := (&form.Form{Kind: form.Schema, Text: `{"type":"string"}`}).Compile(t.Context(), tok, v, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := a.New(true)
		for _, id := range tok.Encode(`"`, tokenizer.Options{NoSpecial: true, Continues: true}) {
			if !c.Accept(id) {
				t.Fatal("a string does not begin with a quote")
			}
		}
		next := constrain.NewSet(tok.Len())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c.Mask(next)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	cold, warm := made(false), made(true)
	for range 5 { // the runtime allocates too, at times
		cold, warm = min(cold, made(false)), min(warm, made(true))
	}
	if warm >= cold {
		t.Errorf("%d allocations, and %d without", warm, cold)
	}
}
