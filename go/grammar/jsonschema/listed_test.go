package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

func branches(n int, branch string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(branch, "N", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// Branches that are told apart by listed values may be many, and are held to as few are.
func TestManyBranches(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"oneOf":[` + branches(20_000, `{"const":"vN","title":"N"}`) + `]}`, []string{`"v0"`, `"v19999"`}, []string{`"v20000"`, `"v"`, `0`}},
		{`{"anyOf":[` + branches(2000, `{"const":N}`) + `,{"type":"null"}]}`, []string{`0`, `1999`, `null`}, []string{`2000`, `-1`, `"0"`}},
		{`{"oneOf":[{"enum":["a","b",1,null]},{"const":"b"},{"enum":["c",1.0,true]},{"const":"\u0000"},{"enum":[false,2]}]}`,
			[]string{`"a"`, `"c"`, `null`, `true`, `false`, `2`, `"\u0000"`}, []string{`"b"`, `1`, `3`}},
		{`{"oneOf":[{"const":"a"},{"enum":["b","c"]},{"type":"string","maxLength":1}]}`, []string{`"d"`, `""`}, []string{`"a"`, `"b"`, `"dd"`}},
		{`{"oneOf":[{"const":"a"},{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"object","properties":{"k":{"enum":["b","c"]}},"required":["k"]},
			{"type":"object","properties":{"k":{"const":"c"}},"required":["k"]},{"type":"object","required":["k","z"]}]}`,
			[]string{`"a"`, `{"k": "a"}`, `{"k": "b"}`, `{"k": 7, "z": 1}`}, []string{`{"k": "c"}`, `{"k": "a", "z": 1}`, `{"k": 7}`, `{}`}},
		{`{"oneOf":[` + branches(400, `{"type":"object","properties":{"k":{"const":"vN"},"aN":{"type":"integer"}},"required":["k"],"additionalProperties":false}`) + `]}`,
			[]string{`{"k": "v7"}`, `{"k": "v7", "a7": 1}`}, []string{`{"k": "v7", "a8": 1}`, `{"k": "v400"}`, `{}`}},
	} {
		for _, exact := range []bool{false, true} {
			g, err := jsonschema.Grammar([]byte(c.schema), jsonschema.Options{Exact: exact})
			if err != nil {
				t.Errorf("%.200s: %v", c.schema, err)
				continue
			}
			for i, text := range append(c.yes, c.no...) {
				if !exact && strings.Contains(text, `"z"`) {
					continue // a member that nothing describes
				}
				if got := grammar.Match(g, grammar.Ref(0), text, nil); got != (i < len(c.yes)) {
					t.Errorf("%.200s: exact %v: %s: %v", c.schema, exact, text, got)
				}
			}
		}
	}
}

// Multiples of steps that have many factors of 2 and 5 are told by their last digits.
func TestLargeSteps(t *testing.T) {
	for _, step := range []int{1000, 1024, 3600, 65536, 86400, 604800, 1_000_000} {
		for _, bounds := range []string{"", `,"minimum":0`, fmt.Sprintf(`,"minimum":%d,"maximum":%d`, -3*step, 1234*step+1)} {
			g, err := jsonschema.Grammar(fmt.Appendf(nil, `{"type":"integer","multipleOf":%d%s}`, step, bounds), jsonschema.Options{Exact: true})
			if err != nil {
				t.Errorf("%d%s: %v", step, bounds, err)
				continue
			}
			for _, n := range []int{0, 1, step, step + 1, step - 1, 2 * step, -step, 7 * step, 7*step + 5, 99 * step, 999*step + step/2, 1234 * step, 1235 * step, 1235*step + 10, -4 * step} {
				want := n%step == 0 && (bounds == "" || n >= 0 && (strings.HasSuffix(bounds, ":0") || n <= 1234*step) || n >= -3*step && n < 0 && !strings.HasSuffix(bounds, ":0"))
				if got := grammar.Match(g, grammar.Ref(0), fmt.Sprint(n), nil); got != want {
					t.Errorf("%d%s: %d: %v, want %v", step, bounds, n, got, want)
				}
			}
		}
	}
	if _, err := jsonschema.Grammar([]byte(`{"multipleOf":123456789}`), jsonschema.Options{}); err == nil || !strings.Contains(err.Error(), "want a step of at most 1000") {
		t.Error(err)
	}
}

// References lead through schemas with an $id of their own, by it, from within it, and by pointers across it.
func TestEmbeddedIDs(t *testing.T) {
	const defs = `"$defs":{"a":{"$id":"http://x/a.json","type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"],"additionalProperties":false,
		"$defs":{"n":{"$anchor":"count","type":"integer"}}}}`
	for _, ref := range []string{"http://x/a.json", "a.json", "#/$defs/a"} {
		for _, in := range []struct{ ref, yes, no string }{{"", `{"n": 1}`, `{"n": "1"}`}, {"/$defs/n", `1`, `"1"`}, {"/properties/n", `1`, `"1"`}, {"count", `1`, `"1"`}} {
			to := ref
			switch pointer := strings.HasPrefix(ref, "#"); {
			case pointer && in.ref == "count":
				continue
			case pointer:
				to += in.ref
			case in.ref != "":
				to += "#" + in.ref
			}
			schema := `{"$id":"http://x/root.json","$ref":"` + to + `",` + defs + `}`
			g, err := jsonschema.Grammar([]byte(schema), jsonschema.Options{Exact: true})
			if err != nil {
				t.Errorf("%s: %v", schema, err)
				continue
			}
			if !grammar.Match(g, grammar.Ref(0), in.yes, nil) || grammar.Match(g, grammar.Ref(0), in.no, nil) {
				t.Errorf("%s: %s is not taken or %s is", schema, in.yes, in.no)
			}
		}
	}
}
