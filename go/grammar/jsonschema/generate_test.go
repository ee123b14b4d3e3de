package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
	"github.com/quern-llm/quern/go/internal/cputime"
)

// letters is a vocabulary of bytes and some longer tokens.
func letters() *constrain.Vocabulary {
	var tokens []string
	for b := range 256 {
		tokens = append(tokens, string([]byte{byte(b)}))
	}
	tokens = append(tokens, `{"`, `": `, `", "`, `"}`, "é", "\n  ", "true", "12", `"foo`, "bar", `\n`, "")
	return constrain.NewVocabulary(len(tokens), func(id int32) []byte { return []byte(tokens[id]) }, []int32{int32(len(tokens) - 1)})
}

// write makes a document of random tokens among those that are allowed, and prefers to end.
func write(t *testing.T, v *constrain.Vocabulary, c constrain.Constraint, r *rand.Rand, most int) (string, bool) {
	t.Helper()
	const n = 256 + 12
	var text []byte
	for len(text) < most {
		next := constrain.NewSet(n)
		c.Mask(next)
		var allowed, closing []int32
		for id := range int32(n) {
			if next.Has(id) {
				allowed = append(allowed, id)
				if id < 256 && strings.ContainsRune(`"}],:`, rune(id)) {
					closing = append(closing, id)
				}
			}
		}
		if len(allowed) == 0 {
			t.Fatalf("nothing may follow %q", text)
		}
		id := allowed[r.IntN(len(allowed))]
		if next.Has(n-1) && r.IntN(2) == 0 {
			id = n - 1
		} else if len(closing) > 0 && r.IntN(2) == 0 {
			id = closing[r.IntN(len(closing))]
		}
		if !c.Accept(id) {
			t.Fatalf("%d is allowed after %q and not taken", id, text)
		}
		if id == n-1 {
			return string(text), true
		}
		text = append(text, tokenText(id)...)
	}
	return string(text), false
}

func tokenText(id int32) string {
	if id < 256 {
		return string([]byte{byte(id)})
	}
	return []string{`{"`, `": `, `", "`, `"}`, "é", "\n  ", "true", "12", `"foo`, "bar", `\n`, ""}[id-256]
}

// Random choices among what is allowed make only documents that an independent validator
// takes, and never get stuck.
func TestRandomDocuments(t *testing.T) {
	v := letters()
	whole, tried := 0, 0
	all := append(jsonschema.SuiteSchemas(t), different...)
	for _, c := range members {
		all = append(all, json.RawMessage(c.schema), json.RawMessage(c.schema))
	}
	for i, c := range all {
		exact := i%2 == 0 // each way of reading a schema for half of them
		g, err := jsonschema.Grammar(c, jsonschema.Options{Exact: exact})
		if err != nil {
			continue
		}
		a, err := v.Compile(g)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		check, err := compile(c)
		if err != nil || strings.Contains(string(c), "uri-template") {
			continue // it refers to what would have to be loaded, or the validator takes it for a URI
		}
		for seed := range 3 {
			text, ended := write(t, v, a.New(true), rand.New(rand.NewPCG(uint64(i), uint64(seed))), 300)
			if tried++; !ended {
				continue
			}
			whole++
			doc, err := validator.UnmarshalJSON(strings.NewReader(text))
			if err == nil {
				err = check.Validate(doc)
			}
			if err != nil {
				t.Errorf("%s\nexact %v: %s: %v", c, exact, text, err)
			}
		}
	}
	if whole < tried/2 || whole < 500 {
		t.Errorf("%d of %d documents were ended: the test does not test them", whole, tried)
	}
}

// different are schemas of arrays whose elements differ, each for both readings.
var different = func() (out [][]byte) {
	for _, items := range []string{
		`{}`, `{"type":"string"}`, `{"type":"string","maxLength":1}`, `{"type":"number"}`, `{"type":"integer","minimum":-2,"maximum":2}`, `{"type":"string","pattern":"^(a|bc*)$"}`,
		`{"type":"array","items":{"type":"boolean"},"uniqueItems":true}`, `{"type":"object","properties":{"a":{"type":"boolean"},"b":{"enum":[0,1.0,2]}},"additionalProperties":false}`,
	} {
		for _, more := range []string{``, `,"minItems":3`, `,"minItems":2,"contains":{"not":{"type":"null"}}`} {
			schema := fmt.Appendf(nil, `{"type":"array","uniqueItems":true,"items":%s%s}`, items, more)
			out = append(out, schema, schema)
		}
	}
	return out
}()

type pattern regexp2.Regexp

func (p *pattern) MatchString(s string) bool {
	ok, err := (*regexp2.Regexp)(p).MatchString(s)
	return ok && err == nil
}

func (p *pattern) String() string { return (*regexp2.Regexp)(p).String() }

func compile(schema []byte) (*validator.Schema, error) {
	doc, err := validator.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		return nil, err
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(s string) (validator.Regexp, error) { // Go's has other classes than ECMA-262's
		r, err := regexp2.Compile(s, regexp2.ECMAScript)
		return (*pattern)(r), err
	})
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

// The bounds that the design sets; a slow machine has ten times as much.
func TestTime(t *testing.T) {
	values := make([]string, 20_000)
	for i := range values {
		values[i] = fmt.Sprintf("value %d of many", i*7919)
	}
	list, err := json.Marshal(map[string]any{"enum": values})
	if err != nil {
		t.Fatal(err)
	}
	v := letters()
	for _, c := range []struct {
		schema string
		limit  time.Duration
	}{
		{string(list), 300 * time.Millisecond},
		{`{"type":"object","properties":{"name":{"type":"string"},"email":{"type":"string","format":"email"},"age":{"type":"integer","minimum":0,"maximum":150},
			"born":{"type":"string","format":"date"},"tags":{"type":"array","items":{"type":"string","maxLength":64}}},"required":["name","age"]}`, 5 * time.Millisecond},
	} {
		best := time.Hour
		for range 3 {
			best = min(best, cputime.Of(func() {
				g, err := jsonschema.Grammar([]byte(c.schema), jsonschema.Options{})
				if err == nil {
					_, err = v.Compile(g)
				}
				if err != nil {
					t.Fatal(err)
				}
			}))
		}
		t.Logf("%.60s: %v", c.schema, best)
		if best > 10*c.limit {
			t.Errorf("%.60s took %v", c.schema, best)
		}
	}
}
