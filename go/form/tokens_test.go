package form

import (
	"os"
	"reflect"
	"runtime"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

func or(name string, id int32) grammar.Expr {
	return grammar.Alt{grammar.Lit(name), grammar.Token{IDs: []int32{id}}}
}

// Tokens may be in the place of their names: of each name in a text, the longest where several begin.
func TestNamesInATextAndElsewhere(t *testing.T) {
	lit := func(s string) grammar.Expr { return grammar.Lit(s) }
	n := newNames(map[string]int32{"<a": 1, "<a>": 2, "<a>b": 3, "(.": 4, "": 5})
	for text, want := range map[string]grammar.Seq{
		"":        {lit("")},
		"xyz":     {lit("xyz")},
		"<a>":     {lit(""), or("<a>", 2), lit("")},
		"<a":      {lit(""), or("<a", 1), lit("")},
		"x<a>by":  {lit("x"), or("<a>b", 3), lit("y")},
		"(.<a<a>": {lit(""), or("(.", 4), lit(""), or("<a", 1), lit(""), or("<a>", 2), lit("")},
		"(x<<a(":  {lit("(x<"), or("<a", 1), lit("(")},
	} {
		if got := n.with(grammar.Lit(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, want %#v", text, got, want)
		}
	}
	// They are found wherever a text stands, but in what has to be regular.
	for range 20 { // whatever the order of a map
		if got := newNames(map[string]int32{"<a": 1, "<a>": 2}).with(lit("<a>")); !reflect.DeepEqual(got, grammar.Seq{lit(""), or("<a>", 2), lit("")}) {
			t.Errorf("%#v", got)
		}
	}
	a := grammar.Seq{lit(""), or("<a", 1), lit("")}
	for _, within := range []func(grammar.Expr) grammar.Expr{
		func(e grammar.Expr) grammar.Expr { return grammar.Seq{grammar.Any, e} },
		func(e grammar.Expr) grammar.Expr { return grammar.Alt{e, grammar.Any} },
		func(e grammar.Expr) grammar.Expr { return grammar.Repeat{Expr: e, Min: 2, Max: 7} },
		func(e grammar.Expr) grammar.Expr { return grammar.Limit{Expr: e, Tokens: 3} },
		func(e grammar.Expr) grammar.Expr {
			return grammar.AnyOrder{Parts: []grammar.Expr{grammar.Any, e}, Must: 1, Listed: true, Between: e, More: e}
		},
	} {
		if got := n.with(within(lit("<a"))); !reflect.DeepEqual(got, within(a)) {
			t.Errorf("%#v, want %#v", got, within(a))
		}
	}
	for _, e := range []grammar.Expr{grammar.And{lit("<a")}, grammar.Not{Expr: lit("<a")}, grammar.Ref(3), grammar.Token{IDs: []int32{7}}, grammar.Any} {
		if got := n.with(e); !reflect.DeepEqual(got, e) {
			t.Errorf("%#v becomes %#v", e, got)
		}
	}
	for _, none := range []map[string]int32{nil, {}, {"": 5}} {
		if got := newNames(none).with(lit("<a")); got != lit("<a") {
			t.Errorf("without names: %#v", got)
		}
	}
}

// A text of a tag is one literal but where the name of a token is in it that prints nothing.
func TestTextOfATag(t *testing.T) {
	data, err := os.ReadFile(testdata.Path(t, "models/stories260K-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	r := &tagReader{tok: tok}
	for text, want := range map[string]grammar.Expr{
		"":            grammar.Seq{grammar.Lit("")},
		"once a day.": grammar.Seq{grammar.Lit("once a day.")},
		"a<s>b":       grammar.Seq{grammar.Lit("a"), or("<s>", 1), grammar.Lit("b")},
		"<s>a<s>":     grammar.Seq{grammar.Lit(""), or("<s>", 1), grammar.Lit("a"), or("<s>", 1), grammar.Lit("")},
	} {
		if got := r.text(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, want %#v", text, got, want)
		}
	}
}

// Structures count as formats do: the last that there may be is read.
func TestMostStructures(t *testing.T) {
	r := &tagReader{formats: maxTagFormats - 1}
	for _, want := range []string{"schema: missing, want a JSON schema", "more than 16384 structures", "more than 16384 structures"} {
		if _, err := r.structure([]byte(`{"begin":"a"}`)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// As many forms are compiled at once as there are CPUs, the first attempts of ordinary ones, and of large ones one.
func TestTurns(t *testing.T) {
	if cap(some) != runtime.GOMAXPROCS(0) || cap(most) != 1 {
		t.Errorf("%d at once on %d CPUs, and %d large ones", cap(some), runtime.GOMAXPROCS(0), cap(most))
	}
	attempts := 0
	if err := inTurn(t.Context(), func(work *grammar.Work) error {
		attempts++
		work.Do(100_000)
		return nil
	}); attempts != 1 || err != nil {
		t.Errorf("an ordinary form: %d attempts, %v", attempts, err)
	}
}
