package jsonschema_test

import (
	"testing"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

// Members that all have to come do so in their author's order, unless the schema shows that there is none: it has them in two
// orders, or a program has sorted it.
func TestOrderOfMembers(t *testing.T) {
	for _, c := range []struct {
		name, schema, yes, no string
		free                  bool // no is right too
	}{
		{"written", `{"type":"object","properties":{"b":{"type":"null"},"a":{"type":"null"}},"required":["b","a"]}`,
			`{"b":null,"a":null}`, `{"a":null,"b":null}`, false},
		{"two orders", `{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"required":["b","a"]}`,
			`{"b":null,"a":null}`, `{"a":null,"b":null}`, true},
		{"sorted, but so few that it may be chance",
			`{"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["a","b","c"],"type":"object"}`,
			`{"a":null,"b":null,"c":null}`, `{"a":null,"c":null,"b":null}`, false},
		{"sorted", `{"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3},"d":{"const":4},"e":{"const":5}},
			"required":["a","b","c","d","e"],"type":"object"}`,
			`{"a":1,"b":2,"c":3,"d":4,"e":5}`, `{"e":5,"b":2,"c":3,"d":4,"a":1}`, true},
		{"sorted members in a schema that is not", `{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3},
			"d":{"const":4},"e":{"const":5}},"required":["a","b","c","d","e"]}`,
			`{"a":1,"b":2,"c":3,"d":4,"e":5}`, `{"e":5,"b":2,"c":3,"d":4,"a":1}`, false},
		{"sorted, and the members of an array's objects are few",
			`{"$defs":{"x":{"properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"],"type":"object"},
			"y":{"properties":{"a":{},"b":{},"c":{},"d":{},"e":{}}}},"items":{"$ref":"#/$defs/x"},"type":"array"}`,
			`[{"a":1,"b":2}]`, `[{"b":2,"a":1}]`, true},
	} {
		g, err := jsonschema.Grammar([]byte(c.schema), jsonschema.Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !grammar.Match(g, grammar.Ref(0), c.yes, nil) {
			t.Errorf("%s: %s is refused", c.name, c.yes)
		}
		if got := grammar.Match(g, grammar.Ref(0), c.no, nil); got != c.free {
			t.Errorf("%s: %s: %v, want %v", c.name, c.no, got, c.free)
		}
	}
}
