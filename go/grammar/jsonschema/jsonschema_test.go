package jsonschema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/internal/testdata"
)

func data(t *testing.T, name string, v any) {
	t.Helper()
	body, err := os.ReadFile(testdata.Path(t, "grammar/"+name))
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The schemas that llama.cpp takes are taken, but for one keyword that it ignores.
func TestLlamaSchemas(t *testing.T) {
	var cases []struct{ Name, Schema, Expect string }
	data(t, "json_schema_to_grammar.llama.cpp.json", &cases)
	for _, c := range cases {
		_, err := Grammar([]byte(c.Schema), Options{})
		if (err == nil) != (c.Expect == "success") {
			t.Errorf("%s: %v, want %s\n%s", c.Name, err, c.Expect, c.Schema)
		}
	}
}

func TestLlamaMatches(t *testing.T) {
	var cases struct {
		Schema []struct {
			Name, Schema string
			Match        []string
			NoMatch      []string `json:"no_match"`
		}
	}
	data(t, "grammar_integration.llama.cpp.json", &cases)
	for _, c := range cases.Schema {
		schema := []byte(strings.Replace(c.Schema, `"uniqueItems": true`, `"uniqueItems": false`, 1)) // which llama.cpp ignores
		g, err := Grammar(schema, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for _, text := range c.Match {
			if !grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%s refuses %s\n%s", c.Name, text, c.Schema)
			}
		}
		for _, text := range c.NoMatch {
			// There, members are in the schema's order even if they may be left out.
			if strings.Contains(c.Name, "props") || strings.HasPrefix(c.Name, "object properties") {
				if exact, err := Grammar(schema, Options{Exact: true}); err == nil && grammar.Match(exact, grammar.Ref(0), text, nil) {
					continue
				}
			}
			if grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%s accepts %s\n%s", c.Name, text, c.Schema)
			}
		}
	}
}

// What models are asked for: schemas as their authors mean them.
func TestMeant(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"type":"object"}`, []string{`{}`, `{"a": [1]}`}, []string{`[]`}},
		{`{"type":"object","properties":{"a":{}},"required":["a","b"]}`, []string{`{"a": null, "b": 1}`}, []string{`{"a": 1}`, `{"a": 1, "b": 1, "c": 1}`}},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, []string{`{"a": 1, "c": 1}`, `{"c": 1}`, `{}`}, []string{`{"a": 1, "a": 1}`}},
		{`{"prefixItems":[{"type":"integer"},{"type":"string"}]}`, []string{`[1, "a"]`}, []string{`[1]`, `[]`, `[1, "a", 2]`}},
		{`{"type":"array","uniqueItems":true,"items":{"enum":["a","b"]}}`, []string{`[]`, `["b", "a"]`}, []string{`["a", "a"]`, `["a", "b", "a"]`}},
		{`{"type":"array","uniqueItems":true,"minItems":2,"items":{"enum":[1,2,3,4,5,6,7,8,9,10]}}`, []string{`[1, 2]`, `[9, 10]`}, []string{`[1]`, `[1, 1]`}},
		{`{"type":"array","uniqueItems":true,"maxItems":1}`, []string{`["a"]`}, []string{`[1, 1]`}},
		{`{"type":"array","uniqueItems":true}`, []string{`[]`, `["a", "b"]`, `[1, "1", true, [1], {"a": 1}]`, `[{"a": 1}, {"a": 2}]`}, []string{`["a", "a"]`, `[1, 1.0]`, `[{"a": 1, "b": 2}, {"b": 2, "a": 1}]`, `[null, null]`}},
		{`{"type":"array","uniqueItems":true,"prefixItems":[{"type":"boolean"},{"type":"boolean"}],"items":{"type":"integer"}}`, []string{`[true, false]`, `[false, true, 1, 2]`}, []string{`[true, true]`, `[true, false, 1, 1]`}},
		{`{"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":1,"maximum":3}}`, []string{`[1, 3, 2]`}, []string{`[1, 2, 3, 4]`, `[1, 1]`}},
		{`{"type":"array","uniqueItems":true,"items":{"type":"integer"},"contains":{"const":5}}`, []string{`[5]`, `[1, 5, 2]`}, []string{`[1, 2]`, `[5, 5]`}},
		{`{"type":"array","uniqueItems":true,"minItems":2,"items":{"enum":[` + integers(50) + `]}}`, []string{`[7, 3, 49]`}, []string{`[7]`, `[7, 3, 7]`}},
		{`{"type":"array","contains":{"type":"string"},"prefixItems":[{"type":"boolean"}],"unevaluatedItems":{"type":"null"}}`, []string{`[true, "a", null]`, `[true, null, "a", "b"]`}, []string{`[true, 1, "a"]`, `[true, null]`}},
		{`{"$ref":"http://json-schema.org/draft-07/schema#"}`, []string{`{"type": "string", "items": {"minLength": 3}}`, `true`}, []string{`{"type": "text"}`, `{"items": {"minLength": -1}}`, `5`}},
		{`{"type":"object","properties":{"n":{"$ref":"http://json-schema.org/draft-04/schema#/definitions/positiveInteger"}}}`, []string{`{"n": 3}`}, []string{`{"n": -3}`}},
		{`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, []string{`{"prefixItems": [{"type": ["string", "null"]}]}`}, []string{`{"prefixItems": [{"type": ["string", "string"]}]}`, `{"$anchor": "1"}`}},
		{`{"$id":"http://a/root","$ref":"list","$defs":{"foo":{"$dynamicAnchor":"items","type":"string"},"list":{"$id":"list","type":"array","items":{"$dynamicRef":"#items"},"$defs":{"items":{"$dynamicAnchor":"items"}}}}}`,
			[]string{`["a"]`}, []string{`[1]`}},
		{`{"type":"object","required":["kind"],"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"integer"}}},{"properties":{"kind":{"const":"b"},"y":{"type":"integer"}}}]}`,
			[]string{`{"kind": "a", "x": 1}`, `{"kind": "b", "y": 1}`, `{"kind": "b"}`}, []string{`{"kind": "c"}`, `{}`, `{"kind": "a", "y": 1}`}},
		{`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k"],"additionalProperties":false},
			{"type":"object","properties":{"k":{"const":"b"},"y":{"type":"integer"}},"required":["k"],"additionalProperties":false}]}`,
			[]string{`{"k": "a", "x": 1}`, `{"k": "b"}`}, []string{`{"k": "a", "y": 1}`}},
		{`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"l":{"$ref":"#/$defs/tree"}},"required":["v"]}}}`,
			[]string{`{"v": 1, "l": {"v": 2, "l": {"v": 3}}}`}, []string{`{"v": 1, "l": {}}`}},
		{`{"type":"number","minimum":-1.5,"exclusiveMaximum":2.25}`, []string{`-1.5`, `-1.50`, `-0.3`, `0`, `1.99`, `2`, `2.2499`, `2.0`}, []string{`-1.51`, `2.25`, `2.250`, `3`, `-2`, `2.3`}},
		{`{"type":"number","exclusiveMinimum":0}`, []string{`0.1`, `5`, `0.0001`}, []string{`0`, `0.0`, `-1`, `-0.1`}},
		{`{"type":"number","multipleOf":0.01}`, []string{`1.25`, `1.5`, `3`, `-0.01`, `0`}, []string{`1.255`}},
		{`{"type":"number","multipleOf":0.25,"minimum":1,"maximum":2}`, []string{`1`, `1.25`, `1.5`, `1.75`, `2`, `1.50`}, []string{`0.75`, `1.1`, `2.25`, `1.30`}},
		{`{"type":"integer","multipleOf":7,"minimum":-21,"maximum":100}`, []string{`-21`, `-7`, `0`, `7`, `98`}, []string{`-28`, `1`, `105`, `-1`}},
		{`{"type":"integer","minimum":9007199254740993}`, []string{`9007199254740993`, `90071992547409930`}, []string{`9007199254740992`}},
		{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"\u00e9é"`, `"\ud83d\ude00a"`, `"\n\""`}, []string{`"a"`, `"abcd"`, `"\ud83da"`}},
		{`{"type":"string","pattern":"^\"\\\\\\n$"}`, []string{`"\"\\\n"`}, nil},
		{`{"type":"string","pattern":"^a","not":{"enum":["ab","ac"]}}`, []string{`"a"`, `"abc"`}, []string{`"ab"`, `"b"`}},
		{`{"const":{"b":[1,null],"a":"x"}}`, []string{`{"b": [1, null], "a": "x"}`, `{"b":[1,null],"a":"x"}`}, []string{`{"a": "x", "b": [1, null]}`}},
		{`{"type":["string","null"],"format":"date"}`, []string{`null`, `"2024-02-29"`}, []string{`"2023-02-29"`, `"x"`}},
		{`{"type":"object","patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":false}`, []string{`{}`, `{"x-a": 1, "x-b": 2}`}, []string{`{"y": 1}`}},
		{`{"type":"object","additionalProperties":{"type":"integer"},"propertyNames":{"pattern":"^[a-z]+$"},"minProperties":1,"maxProperties":2}`,
			[]string{`{"a": 1}`, `{"a": 1, "b": 2}`}, []string{`{}`, `{"A": 1}`, `{"a": 1, "b": 2, "c": 3}`}},
		{`{"type":"array","contains":{"const":1},"minItems":2}`, []string{`[1, 2]`, `[2, 1]`, `[2, 3, 1]`}, []string{`[1]`, `[2, 3]`}},
		{`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"integer"}},"if":{"properties":{"a":{"const":true}},"required":["a"]},"then":{"required":["b"]}}`,
			[]string{`{"a": true, "b": 1}`, `{"a": false}`, `{"b": 1}`}, []string{`{"a": true}`}},
	} {
		g, err := Grammar([]byte(c.schema), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range c.yes {
			if !grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%s refuses %s", c.schema, text)
			}
		}
		for _, text := range c.no {
			if grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%s accepts %s", c.schema, text)
			}
		}
	}
}

func TestSpace(t *testing.T) {
	for _, c := range []struct {
		opts    Options
		yes, no []string
	}{
		{Options{}, []string{"{\n  \"a\": 1,\n  \"b\": [\n    1\n  ]\n}", `{"a":1,"b":[1,2]}`, `{ "a": 1, "b": [] }`}, []string{`{"a"  :1,"b":[]}`, ` {"a":1,"b":[]}`, "{\n\n\"a\":1,\"b\":[]}"}},
		{Options{Compact: true}, []string{`{"a": 1, "b": [1, 2]}`}, []string{`{"a":1,"b":[1,2]}`, `{ "a": 1, "b": [] }`}},
		{Options{Space: grammar.Lit("")}, []string{`{"a":1,"b":[1,2]}`}, []string{`{"a": 1, "b": [1, 2]}`}},
	} {
		g, err := Grammar([]byte(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array"}},"required":["a","b"]}`), c.opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range c.yes {
			if !grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%+v refuses %s", c.opts, text)
			}
		}
		for _, text := range c.no {
			if grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%+v accepts %s", c.opts, text)
			}
		}
	}
}

// A schema may say itself that its documents have no white space, as llguidance has it.
func TestGuidance(t *testing.T) {
	const rest = `"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array"}},"required":["a","b"]}`
	for guidance, want := range map[string]string{
		`{"whitespace_flexible":false}`:                                            `{"a":1,"b":[1,2]}`,
		`{"whitespace_flexible":false,"item_separator":", ","key_separator":": "}`: `{"a": 1, "b": [1, 2]}`,
		`{"whitespace_flexible":false,"key_separator":" : ","lenient":true}`:       `{"a" : 1,"b" : [1,2]}`,
		`{"whitespace_flexible":true,"item_separator":","}`:                        "{\n  \"a\": 1,\n  \"b\": [1, 2]\n}",
		`{}`:   `{ "a": 1, "b": [1,2] }`,
		`null`: `{ "a": 1, "b": [1,2] }`,
	} {
		g, err := Grammar([]byte(`{"x-guidance":`+guidance+`,`+rest), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{`{"a":1,"b":[1,2]}`, `{"a": 1, "b": [1, 2]}`, `{"a" : 1,"b" : [1,2]}`, "{\n  \"a\": 1,\n  \"b\": [1, 2]\n}", `{ "a": 1, "b": [1,2] }`} {
			flexible := !strings.Contains(guidance, "false")
			if got := grammar.Match(g, grammar.Ref(0), text, nil); got != (text == want) && !flexible || text == want && !got {
				t.Errorf("%s: %s: %v", guidance, text, got)
			}
		}
	}
	for _, wrong := range []string{`"; "`, `7`, `","`} {
		if _, err := Grammar([]byte(`{"x-guidance":{"whitespace_flexible":false,"key_separator":`+wrong+`},`+rest), Options{}); err == nil || !strings.Contains(err.Error(), "#/x-guidance: key_separator") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// What can't be decided, and what is wrong, is named with its place.
func TestErrors(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 300) + `true` + strings.Repeat("}", 300)
	var branches []string
	for i := range 12 {
		branches = append(branches, fmt.Sprintf(`{"anyOf":[{"required":["a%d"]},{"required":["b%d"]},{"required":["c%d"]}]}`, i, i, i))
	}
	for schema, want := range map[string]string{
		`{"type":"kaboom"}`: `#/type: "kaboom" is no type`, `{"type":123}`: "#/type: 123", `5`: "want a schema", `{"a":`: "ends in the middle", `{"a":1,"a":2}`: "duplicate", `{} 1`: "goes on",
		`{"$ref":"#/nope"}`: `#/$ref: the schema has no "#/nope"`, `{"type":"array","items":{"type":"boolean"},"uniqueItems":true,"minItems":3}`: "allows no document",
		`{"$ref":"http://x/y"}`: "is not within the schema", `{"$ref":"#"}`: "refers to itself without end", `{"pattern":"(a)\\1"}`: "#/pattern: the back reference",
		`{"type":"integer","minimum":3,"maximum":2}`: "allows no document", `{"allOf":[{"type":"string"},{"type":"integer"}]}`: "allows no document", `false`: "allows no document",
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}}}`: "allows no document",
		`{"multipleOf":0}`: "#/multipleOf: 0, want a number above 0", `{"minLength":-1}`: "#/minLength: -1, want an integer",
		`{"properties":5}`: "#/properties: 5, want an object", `{"enum":5}`: "#/enum: 5", `{"required":["a",5]}`: "#/required: 5 among strings",
		`{"not":{"type":"object","additionalProperties":{"type":"string"}},"type":"object","minProperties":3}`: "#/not/additionalProperties: its negation", `{"items":"x"}`: `#/items: "x", want a schema`,
		deep: "nests more than", `{"allOf":[` + strings.Join(branches, ",") + `]}`: "alternatives", `{"minimum":1e999}`: "#/minimum: 1e999", `{"anyOf":{}}`: "#/anyOf: an object, want an array",
		// What is refused stays so when more is.
		`{"not":{"uniqueItems":true},"contains":{},"unevaluatedItems":false}`: "can't be decided",
		// What is too large is refused before it is made.
		`{"type":"number","minimum":1e398,"multipleOf":0.0000000000000997}`: "#/multipleOf: the schema makes more than",
	} {
		_, err := Grammar([]byte(schema), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %s", schema, err, want)
		}
	}
}

// integers returns n integers with commas between them.
func integers(n int) string {
	var list []string
	for i := range n {
		list = append(list, strconv.Itoa(i))
	}
	return strings.Join(list, ",")
}

func FuzzGrammar(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":-5,"multipleOf":0.5}},"required":["a"],"oneOf":[{"minProperties":1},{"not":{"const":1}}]}`), "{}")
	f.Add([]byte(`{"$defs":{"x":{"items":{"$ref":"#/$defs/x"},"contains":{"enum":[1,"a"]},"maxContains":2}},"$ref":"#/$defs/x","if":{"pattern":"^a(?=b)"},"then":{"format":"date"}}`), "[1]")
	f.Fuzz(func(t *testing.T, schema []byte, text string) {
		g, err := Grammar(schema, Options{})
		if err == nil && len(schema) < 200 && len(text) < 10 {
			grammar.Match(g, grammar.Ref(0), text, nil)
		}
	})
}

// Of the numbers with some places those are written that are multiples, whatever of the step divides powers of 10.
func TestMultiples(t *testing.T) {
	for _, step := range []string{"1", "2", "3", "4", "6", "7", "8", "10", "12", "15", "30", "40", "64", "99", "125", "1000", "1.5", "0.1", "0.3", "0.25", "0.04", "1.25"} {
		for _, bounds := range []struct {
			text   string
			lo, hi float64
		}{{"", math.Inf(-1), math.Inf(1)}, {`,"minimum":-31,"maximum":1234`, -31, 1234}, {`,"exclusiveMinimum":75.5`, 75.500001, math.Inf(1)}} {
			schema := fmt.Sprintf(`{"type":"number","multipleOf":%s%s}`, step, bounds.text)
			g, err := Grammar([]byte(schema), Options{})
			if err != nil {
				t.Fatalf("%s: %v", schema, err)
			}
			m, _ := new(big.Rat).SetString(step)
			places, _ := m.FloatPrec()
			for p, scale := 0, int64(1); p <= places; p, scale = p+1, scale*10 {
				for i := int64(-1200); i < 30_000; i += 1 + max(i, -i)/40 {
					x := big.NewRat(i, scale)
					value, _ := x.Float64()
					text := x.FloatString(p)
					want := new(big.Rat).Quo(x, m).IsInt() && value >= bounds.lo && value <= bounds.hi
					if got := grammar.Match(g, grammar.Ref(0), text, nil); got != want {
						t.Fatalf("%s: %s is taken: %v, want %v", schema, text, got, want)
					}
				}
			}
		}
	}
}

// To the letter, members come in any order, with others among them, each that is described once; and 1.0 is an integer.
// Otherwise members that all have to come are in the schema's order, and a type beside a $ref holds.
func TestExact(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer","minimum":2},"c":{}},"required":["b"]}`
	const all = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"object","properties":{"c":{},"d":{}},"required":["c"]}},"required":["a","b"]}`
	const typed = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":["boolean","object"],"$ref":"#/definitions/o"}},
		"definitions":{"o":{"properties":{"c":{"type":"integer"}}}}}`
	for _, tt := range []struct {
		schema, text  string
		exact, closed bool
	}{
		{schema, `{"a": 1, "b": 2}`, true, true},
		{schema, `{"b": 2, "a": 1}`, true, true},
		{schema, `{"c": null, "b": 2, "a": 1}`, true, true},
		{schema, `{"x": [], "b": 2, "y": 1, "a": 1}`, true, false},
		{schema, `{"b": 2.0, "a": 1.00}`, true, false},
		{schema, `{"b": 2.5}`, false, false},
		{schema, `{"b": 1.0}`, false, false},
		{schema, `{"a": 1}`, false, false},
		{schema, `{"b": 2, "a": 1, "b": 3}`, false, false},
		{schema, `{"b": 2,}`, false, false},
		{`{"enum":[1,2.5]}`, `1.0`, true, false},
		{`{"enum":[1,2.5]}`, `1`, true, true},
		{`{"enum":[1,2.5]}`, `2.5`, true, true},
		{`{"enum":[1,2.5]}`, `1.5`, false, false},
		{schema, `{}`, false, false},
		{`{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false}`, `{"b": 1, "a": 2}`, true, true},
		{all, `{"a": 1, "b": {"d": 2, "c": 1}}`, true, true},
		{all, `{"b": {"c": 1}, "a": 1}`, true, false},
		{all, `{"a": 1, "b": {"d": 2}}`, false, false},
		{typed, `{"a": true}`, true, true},
		{typed, `{"a": {"c": 1}}`, true, true},
		{typed, `{"a": "x"}`, true, false},
		{typed, `{"a": {"c": "x"}}`, false, false},
		{`{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false}`, `{}`, true, true},
		{`{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false}`, `{"b": 1, "c": 2}`, false, false},
	} {
		for _, exact := range []bool{true, false} {
			g, err := Grammar([]byte(tt.schema), Options{Exact: exact})
			if err != nil {
				t.Fatal(err)
			}
			want := tt.closed
			if exact {
				want = tt.exact
			}
			if got := grammar.Match(g, grammar.Ref(0), tt.text, nil); got != want {
				t.Errorf("%s, exact %v: %s: %v, want %v", tt.schema, exact, tt.text, got, want)
			}
		}
	}
}

// The values of an enumeration come once each, in any order, also where they are more than can be counted.
func TestUniqueOfManyValues(t *testing.T) {
	g, err := Grammar([]byte(`{"type":"array","uniqueItems":true,"minItems":1,"items":{"enum":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]}}`), Options{Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`[3]`: true, `[19, 0, 7, 12]`: true, `[]`: false, `[3, 3]`: false, `[1, 2, 19, 1]`: false, `[20]`: false, `[2, 1,]`: false,
	} {
		if got := grammar.Match(g, grammar.Ref(0), text, nil); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// What is written as a regular expression is one, and so are most that people write.
func TestRegexFormat(t *testing.T) {
	g, err := Grammar([]byte(`{"type":"string","format":"regex"}`), Options{Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`^[a-z0-9_]+$`: true, `(ab|c)*d?`: true, `^\d{4}-\d{2}$`: true, `a{2,}?`: true, `((a|b)+c){3}`: true, `[^\s"\-]*`: true, ``: true, `\.`: true,
		`a**`: false, `(a`: false, `a)`: false, `[a`: false, `*a`: false, `^*`: false, `a{2`: false, `\`: false, `[z-a]`: false, `a{3,2}`: false, `(?<=a`: false,
	} {
		if got := grammar.Match(g, grammar.Ref(0), quote(text), nil); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		if _, err := regexp.Compile(text); want && err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
