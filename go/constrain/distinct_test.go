package constrain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/grammar"
)

// elements returns an array of elements, separated by a comma, with or without a space after it.
func elements(e grammar.Expr, least, most int) *grammar.Grammar {
	g := &grammar.Grammar{}
	comma := grammar.Seq{grammar.Lit(","), grammar.Repeat{Expr: grammar.Lit(" "), Max: 1}}
	all := grammar.Seq{e, grammar.Repeat{Expr: grammar.Seq{comma, e}, Min: max(least-1, 0), Max: most - 1}}
	var list grammar.Expr = all
	if least == 0 {
		list = grammar.Repeat{Expr: all, Max: 1}
	}
	if most < 0 {
		list = grammar.Repeat{Expr: grammar.Seq{e, grammar.Repeat{Expr: grammar.Seq{comma, e}, Min: max(least-1, 0), Max: -1}}, Min: min(least, 1), Max: 1}
	}
	g.Add("root", grammar.Distinct{Elements: list})
	return g
}

// members returns an object of members.
func members(e grammar.Expr, least, most int) *grammar.Grammar {
	g := elements(e, least, most)
	g.Rules[0].Expr = grammar.Distinct{Elements: g.Rules[0].Expr.(grammar.Distinct).Elements, Names: true}
	return g
}

// differ reports whether the elements of an array differ, by their values, or the names of an object's members.
func differ(t *testing.T, text string) bool {
	t.Helper()
	if text[0] == '{' {
		return jsontext.Value(text).IsValid()
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var all []any
	if err := d.Decode(&all); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	seen := map[string]bool{}
	for _, v := range all {
		key := written(t, v)
		if seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// written returns a value so that equal ones are written alike.
func written(t *testing.T, v any) string {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(string(v))
		if !ok {
			t.Fatal(v)
		}
		return r.String()
	case []any:
		var b strings.Builder
		for _, e := range v {
			fmt.Fprintf(&b, "%s,", written(t, e))
		}
		return "[" + b.String() + "]"
	case map[string]any:
		m := map[string]string{}
		for k, e := range v {
			m[k] = written(t, e)
		}
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var (
	jsonDigit = grammar.Class{{Lo: '0', Hi: '9'}}
	someText  = grammar.Seq{grammar.Lit(`"`), grammar.Repeat{Expr: grammar.Alt{grammar.Class{{Lo: 'a', Hi: 'c'}}, grammar.Lit(`\u0061`), grammar.Lit(`\n`)}, Max: -1}, grammar.Lit(`"`)}
	shortText = grammar.Seq{grammar.Lit(`"`), grammar.Repeat{Expr: grammar.Class{{Lo: 'a', Hi: 'b'}}, Max: 2}, grammar.Lit(`"`)}
	someCount = grammar.Seq{grammar.Repeat{Expr: grammar.Lit("-"), Max: 1}, grammar.Alt{grammar.Lit("0"), grammar.Seq{grammar.Class{{Lo: '1', Hi: '9'}}, grammar.Repeat{Expr: jsonDigit, Max: 1}}},
		grammar.Repeat{Expr: grammar.Seq{grammar.Lit("."), grammar.Repeat{Expr: jsonDigit, Min: 1, Max: 2}}, Max: 1}, grammar.Repeat{Expr: grammar.Seq{grammar.Lit("e"), jsonDigit}, Max: 1}}
	someObject = grammar.Seq{grammar.Lit("{"), grammar.AnyOrder{Parts: []grammar.Expr{
		grammar.Seq{grammar.Lit(`"a":`), shortText}, grammar.Seq{grammar.Lit(`"b":`), grammar.Alt{grammar.Lit("1"), grammar.Lit("1.0"), grammar.Lit("2")}},
	}, Between: grammar.Lit(",")}, grammar.Lit("}")}
	someList = grammar.Seq{grammar.Lit("["), grammar.Repeat{Expr: grammar.Seq{jsonDigit, grammar.Repeat{Expr: grammar.Seq{grammar.Lit(","), jsonDigit}, Max: 2}}, Max: 1}, grammar.Lit("]")}
)

// distinctCases are arrays of which random texts soon have an element twice.
func distinctCases() map[string]*grammar.Grammar {
	inner := elements(grammar.Alt{grammar.Lit("1"), grammar.Lit("2"), grammar.Lit("1.0")}, 0, -1)
	nested := elements(grammar.Ref(1), 0, -1)
	nested.Add("inner", inner.Rules[0].Expr)
	either := elements(shortText, 0, -1) // the same array, where elements may be the same if the first is null
	either.Rules[0].Expr = grammar.Alt{either.Rules[0].Expr, grammar.Seq{grammar.Lit("[null"), grammar.Repeat{Expr: grammar.Seq{grammar.Lit(","), shortText}, Max: -1}, grammar.Lit("]")}}
	tails := elements(shortText, 0, -1) // whose elements are in rules that call each other
	tails.Rules[0].Expr = grammar.Distinct{Elements: grammar.Ref(1)}
	tails.Add("one", grammar.Seq{shortText, grammar.Repeat{Expr: grammar.Seq{grammar.Lit(","), grammar.Ref(2)}, Max: 1}})
	tails.Add("more", grammar.Alt{grammar.Seq{jsonDigit, grammar.Repeat{Expr: grammar.Seq{grammar.Lit(","), grammar.Ref(2)}, Max: 1}}, grammar.Ref(1)})
	colon := grammar.Seq{grammar.Repeat{Expr: grammar.Lit(" "), Max: 1}, grammar.Lit(":")}
	map2 := members(grammar.Seq{shortText, colon, grammar.Alt{jsonDigit, someObject, grammar.Ref(1)}}, 2, 4)
	map2.Add("inner", inner.Rules[0].Expr)
	return map[string]*grammar.Grammar{
		"members": members(grammar.Seq{someText, colon, jsonDigit}, 0, -1), "short members": members(grammar.Seq{shortText, colon, shortText}, 3, -1),
		"members of values": map2,
		"tails":             tails,
		"strings":           elements(someText, 0, -1), "short strings": elements(shortText, 0, -1), "numbers": elements(someCount, 2, -1),
		"objects": elements(someObject, 0, -1), "lists": elements(someList, 1, -1), "nested": nested,
		"digits": elements(jsonDigit, 3, 6), "words": elements(grammar.Alt{grammar.Lit("null"), grammar.Lit("true"), grammar.Lit("false"), grammar.Lit(`"null"`), grammar.Lit(`"true"`)}, 4, 5),
		"either": either,
	}
}

// jsonTokens are bytes and tokens that end and begin several elements at once.
func jsonTokens() []string {
	var tokens []string
	for b := range 128 {
		tokens = append(tokens, string(rune(b)))
	}
	return append(tokens, `","`, `", "`, `"a"`, `","a"`, `["`, `["a","a"`, `["a","b"`, `"]`, `a"`, `b",`, `1,1`, `1,2`, `,1,`, `, 1`, `[1,1]`, `[1,2]`, `],[`, `[[1],[1]]`, `},{`, `{"a":"`, `":"`,
		`"a":"a"`, `1.0`, `.0`, `e0`, `0,`, `1]`, `null,`, `true,true`, `true,`, `\u0061`, `\u`, "\n", "00", "")
}

// What the mask allows is what is accepted, and is what goes on to a text whose elements differ.
func TestDistinct(t *testing.T) {
	tokens := jsonTokens()
	end := int32(len(tokens) - 1)
	v := NewVocabulary(len(tokens), func(id int32) []byte { return []byte(tokens[id]) }, []int32{end})
	for name, g := range distinctCases() {
		a, err := v.Compile(g)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ended := 0
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := a.New(true)
			var text []byte
			for len(text) < 60 {
				next := NewSet(len(tokens))
				c.Mask(next)
				var allowed []int32
				for id := range end + 1 {
					took := c.Accept(id)
					if took != next.Has(id) {
						t.Fatalf("%s: after %q: mask %v, step %v for %q", name, text, next.Has(id), took, tokens[id])
					}
					if took {
						c.Rollback(1)
						allowed = append(allowed, id)
					}
				}
				if len(allowed) == 0 {
					t.Fatalf("%s: nothing may follow %q: %v", name, text, c.(Failer).Err())
				}
				id := allowed[r.IntN(len(allowed))]
				if seed%3 == 0 {
					c = c.Fork()
				}
				if !c.Accept(id) {
					t.Fatalf("%s: %q is not taken", name, tokens[id])
				}
				if id == end {
					break
				}
				text = append(text, tokens[id]...)
			}
			next := NewSet(len(tokens))
			if c.Mask(next); next.Has(end) || (bytes.HasSuffix(text, []byte("]")) || bytes.HasSuffix(text, []byte("}"))) && json.Valid(text) {
				ended++
				if !differ(t, string(text)) && !strings.HasPrefix(string(text), "[null") {
					t.Errorf("%s: %s", name, text)
				}
			}
		}
		if ended < 2 {
			t.Errorf("%s: %d texts have ended: the test does not test them", name, ended)
		}
	}
}

// Of texts that are spelled byte by byte, those are taken whose elements differ.
func TestDistinctTexts(t *testing.T) {
	v := NewVocabulary(129, func(id int32) []byte {
		if id == 128 {
			return nil
		}
		return []byte{byte(id)}
	}, []int32{128})
	cases := distinctCases()
	for _, c := range []struct{ name, text string }{
		{"strings", `["a","b"]`}, {"strings", `["a","\u0061"]`}, {"strings", `["a","ab","abc","","b"]`}, {"strings", `["","a",""]`}, {"strings", `["\n","\n"]`}, {"strings", `["\n","b"]`},
		{"numbers", `[1,2]`}, {"numbers", `[1,1.0]`}, {"numbers", `[10,1e1]`}, {"numbers", `[0,-0]`}, {"numbers", `[-1,1]`}, {"numbers", `[0.1,1]`}, {"numbers", `[1.5,15]`}, {"numbers", `[0.50,5e0, 0.5]`},
		{"objects", `[{"a":"a","b":1},{"b":1.0,"a":"a"}]`}, {"objects", `[{"a":"a"},{"a":"a","b":1}]`}, {"objects", `[{"a":"a","b":1},{"b":2,"a":"a"}]`}, {"objects", `[{"a":"a"}, {"a":"a"}]`},
		{"lists", `[[],[1],[1,2]]`}, {"lists", `[[1],[1]]`}, {"lists", `[[],[]]`}, {"lists", `[[1,2],[2,1]]`},
		{"nested", `[[1],[2],[1,2]]`}, {"nested", `[[1],[1.0]]`}, {"nested", `[[1,1]]`}, {"nested", `[[1,2],[2,1]]`}, {"nested", `[[],[1.0,2],[1,2]]`},
		{"members", `{"a":1,"b":1}`}, {"members", `{"a":1,"\u0061":2}`}, {"members", `{"":1,"a" :1, "":2}`}, {"members", `{}`}, {"members", `{"a":1, "ab":1,"abc" :1}`},
		{"members of values", `{"a":{"a":"a"},"b":{"a":"a"}}`}, {"members of values", `{"a":[1,2],"b":[1,2]}`}, {"members of values", `{"a":{"a":"a"},"b":1,"a":1}`},
		{"words", `[null,true,"null","true"]`}, {"words", `[null,true,"null",null]`},
		{"tails", `["a",1,2,"b",""]`}, {"tails", `["a",1,"a"]`}, {"tails", `["a",1,2,1]`}, {"either", `["a","a"]`}, {"either", `[null,"a","a"]`}, {"either", `["a","b"]`},
	} {
		want := strings.HasPrefix(c.text, "[null,\"") || differ(t, c.text) && !(c.name == "nested" && c.text == `[[1,1]]`)
		g := cases[c.name]
		a, err := v.Compile(g)
		if err != nil {
			t.Fatal(err)
		}
		m := a.New(true)
		got := true
		for i := 0; i < len(c.text) && got; i++ {
			got = m.Accept(int32(c.text[i]))
		}
		if got = got && m.Accept(128); got != want {
			t.Errorf("%s: %s: %v, want %v", c.name, c.text, got, want)
		}
		if matched := grammar.Match(g, grammar.Ref(0), c.text, nil); matched != want {
			t.Errorf("%s: %s is matched: %v, want %v", c.name, c.text, matched, want)
		}
	}
}

// A value that is written is no other from the first byte on by which it differs: a name by that of no member, or of one
// that has come.
func TestCursorNames(t *testing.T) {
	v := parseJSON([]byte(`{"foo":1,"fox":2,"\u0061b":3}`))
	for text, want := range map[string]bool{
		`{"f`: true, `{"fo`: true, `{"fox`: true, `{"foxe`: false, `{"b`: false, `{"ab`: true, `{"\u0061`: true, `{"\u0062b`: true, `{"\u0062b"`: false,
		`{"fox":2,"fo`: true, `{"fox":2,"fox`: false, `{"fox":2,"foo":1,"f`: false, `{"fox":2,"foo":1,"`: true, `{ "foo" :1.0, "ab":3,"fox":2}`: true,
	} {
		c, is := cursor{v: v}, true
		for i := 0; i < len(text) && is; i++ {
			c, is = c.after(text[i])
		}
		if is != want {
			t.Errorf("%s: %v, want %v", text, is, want)
		}
	}
}
