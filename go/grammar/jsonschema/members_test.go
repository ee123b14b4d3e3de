package jsonschema_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

// members are schemas of objects with some member of a kind or several members of any names, and of arrays with elements of
// several kinds, each with documents that are valid and that are not.
var members = []struct {
	schema  string
	yes, no []string
}{
	{`{"type":"object","not":{"additionalProperties":{"type":"string"}}}`,
		[]string{`{"a": 1}`, `{"b": null}`}, []string{`{}`, `{"a": "x"}`, `{"a": "x", "b": ""}`}},
	{`{"type":"object","properties":{"a":{"type":"integer"}},"not":{"properties":{"b":{}},"additionalProperties":{"type":"string"}}}`,
		[]string{`{"a": 1}`, `{"b": 1, "a": 2}`, `{"c": 1}`, `{"b": 7, "c": []}`}, []string{`{"b": 1}`, `{"a": "x"}`, `{"c": "x"}`, `{}`}},
	{`{"type":"object","patternProperties":{"^x-":{"type":"integer"},"^y":{}},"additionalProperties":false,"not":{"patternProperties":{"^x-":{}},"additionalProperties":false}}`,
		[]string{`{"y": 1}`, `{"x-a": 1, "y": {}}`, `{"y": 1, "y2": 1, "x-b": 1}`}, []string{`{}`, `{"x-a": 1}`, `{"z": 1}`}},
	{`{"type":"object","properties":{"xy":{"type":"integer"}},"required":["xy"],"not":{"patternProperties":{"^x":{"maximum":5}}}}`,
		[]string{`{"xy": 6}`, `{"xy": 1, "x": 6}`, `{"xy": 6, "b": 1}`}, []string{`{"xy": 5}`, `{"xy": 1, "x": 5}`, `{"xy": 1, "b": 6}`}},
	{`{"type":"object","not":{"patternProperties":{"^x":false}}}`, []string{`{"x": 1}`, `{"a": 1, "xx": 2, "x": 3}`}, []string{`{}`, `{"a": 1}`}},
	{`{"type":"object","not":{"propertyNames":{"maxLength":2}}}`, []string{`{"abc": 1}`, `{"a": 1, "bcde": 2}`}, []string{`{}`, `{"a": 1}`, `{"ab": 1, "b": 1}`}},
	{`{"type":"object","not":{"properties":{"a":{"type":"string"}},"unevaluatedProperties":false}}`,
		[]string{`{"a": 1}`, `{"b": 1}`, `{"a": "x", "b": 1}`}, []string{`{}`, `{"a": "x"}`}},
	{`{"type":"object","not":{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}},"required":["b"]}],"unevaluatedProperties":false}}`,
		[]string{`{"c": 1}`, `{"a": "x", "c": 1}`}, []string{`{}`, `{"a": "x"}`, `{"a": "x", "b": "y"}`}},
	{`{"type":"object","anyOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}],"unevaluatedProperties":false}`,
		[]string{`{"a": 1}`, `{"b": 1}`, `{"a": 1, "b": 1}`}, []string{`{}`, `{"a": 1, "b": "x"}`, `{"a": 1, "c": 1}`}},
	{`{"type":"object","minProperties":3,"additionalProperties":{"type":"integer"}}`,
		[]string{`{"a": 1, "b": 1, "c": 1}`, `{"a": 1, "aa": 2, "": 3, "d": 4}`}, []string{`{}`, `{"a": 1, "b": 2}`, `{"a": 1, "b": 2, "a": 3}`, `{"a": 1, "\u0061": 2, "b": 3}`}},
	{`{"type":"object","minProperties":3,"maxProperties":3,"properties":{"n":{"type":"integer"}}}`,
		[]string{`{"a": 1, "b": 1, "c": 1}`, `{"n": 1, "a": "x", "b": [1, 1]}`}, []string{`{"n": 1, "a": 2}`, `{"n": 1, "a": 2, "b": 3, "c": 4}`}},
	{`{"type":"array","contains":{"const":1},"allOf":[{"contains":{"const":2},"minContains":2}]}`,
		[]string{`[1, 2, 2]`, `[2, 2, 3, 1]`, `[2, 1, 2, 1]`}, []string{`[1, 2]`, `[2, 2]`, `[]`}},
	{`{"type":"array","contains":{"type":"integer"},"maxContains":2,"allOf":[{"contains":{"minimum":5}}],"maxItems":4}`,
		[]string{`[5]`, `["a", 1, 7, "b"]`, `[5.5, 1]`}, []string{`[1]`, `[5, 6, 7]`, `[5.5]`, `["a"]`}},
	{`{"oneOf":[{"type":"object","not":{"propertyNames":{"pattern":"^a"}}},{"type":"string"}]}`, []string{`"x"`, `{"b": 1}`}, []string{`{"a": 1}`, `1`}},
}

// What a schema denies of members, how many there are of any names, and what several contains ask for is held to.
func TestMembers(t *testing.T) {
	for _, c := range members {
		g, err := jsonschema.Grammar([]byte(c.schema), jsonschema.Options{Exact: true})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		check, err := compile(json.RawMessage(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range slices.Concat(c.yes, c.no) {
			want := slices.Contains(c.yes, text)
			if got := grammar.Match(g, grammar.Ref(0), text, nil); got != want {
				t.Errorf("%s: %s: %v, want %v", c.schema, text, got, want)
			}
			var doc any
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatal(err)
			}
			if want && check.Validate(doc) != nil {
				t.Errorf("%s: %s is not valid: the test is wrong", c.schema, text)
			}
		}
	}
}

// The arguments of a tool whose members are written apart can't be told whether some member is of a kind.
func TestSomeMemberOfArguments(t *testing.T) {
	g := &grammar.Grammar{}
	if o, err := jsonschema.Arguments(g, []byte(members[0].schema), jsonschema.Options{}); err == nil {
		t.Errorf("%+v", o)
	}
}
