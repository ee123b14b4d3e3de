package fake

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// WrongFields sends every field of a route's body with every wrong type, and with numbers just outside of its range: each
// is refused by name. fields are the ones that a request must have; wrong returns wrong values of the targets that only
// this API has, and nil for others.
func WrongFields(t *testing.T, routes []answer.Route, path, fields string, wrong func(field.Target) []string) {
	t.Helper()
	s := New(t, "Hello", nil)
	sent := 0
	for _, f := range Body(t, routes, path).Defaults(&ask.Model{}).Fields() {
		for _, name := range f.Names {
			values := wrong(f.To)
			if values == nil {
				values = WrongValues(f.To)
			}
			for _, v := range values {
				body := "{" + fields + `,"` + name + `":` + v + "}"
				if at := strings.Index(fields, `"`+name+`":`); at >= 0 {
					body = "{" + fields[:at] + `"` + name + `":` + v + "}"
				}
				s.Refused(path, body, 400, name)
				sent++
			}
		}
	}
	if sent < 150 {
		t.Errorf("only %d requests", sent)
	}
}

// Body returns the body of the route with a path.
func Body(t testing.TB, routes []answer.Route, path string) answer.Body {
	t.Helper()
	for _, r := range routes {
		if r.Paths[0] == path && r.Body.Name != "" {
			return r.Body
		}
	}
	t.Fatalf("no route of %s with a body", path)
	return answer.Body{}
}

// WrongValues are values that a target refuses, whatever it is.
func WrongValues(to field.Target) []string {
	switch to := to.(type) {
	case ask.Neutral:
		return []string{`[7]`, `{"a":7}`, `"nonsense"`}
	case *ask.StopWords, *ask.SamplerList:
		return []string{`1`, `true`, `{}`, `[1]`, `[[]]`}
	case *ask.Idle:
		return []string{`"1"`, `true`, `[]`, `{}`, `1e400`}
	case *field.Texts, *ask.Breakers:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`, `[[]]`}
	case ask.Structured:
		return []string{
			`1`, `true`, `[]`, `"x"`, `{"choice":1}`, `{"choice":[1]}`, `{"choice":[]}`, `{"regex":1}`, `{"json":1}`,
			`{"json_object":"x"}`, `{"grammar":[]}`, `{"structural_tag":1}`, `{"xml":"x"}`,
		}
	case ask.FormText:
		return []string{`1`, `true`, `[]`, `{}`}
	case ask.FormSchema:
		return append([]string{`1`, `[]`}, map[bool][]string{false: {`"x"`}}[to.Quoted]...)
	case ask.FormChoice:
		return []string{`1`, `true`, `{}`, `"x"`, `[]`, `[1]`, `[[]]`, `[""]`}
	case ask.ResponseForm:
		return []string{
			`1`, `true`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"type":"x"}`, `{"type":"json_schema"}`,
			`{"type":"json_schema","json_schema":1}`, `{"type":"json_object","schema":1}`, `{"type":"json_object","value":1}`,
		}
	case ask.SentMessages:
		return WrongValues(to.Messages)
	case *ask.Messages, *ask.TokenList:
		return []string{`1`, `true`, `{}`, `"x"`, `[1.5]`, `[[]]`}
	case *ask.Triggers:
		return []string{
			`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"type":"word"}]`, `[{"type":"x","value":"a"}]`, `[{"type":9,"value":"a"}]`,
			`[{"type":"token"}]`, `[{"type":"token","token":-1}]`, `[{"type":"word","value":1}]`,
		}
	case *ask.Tools, ask.BareTools:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`, `[[]]`, `[{}]`, `[{"type":"function","function":1}]`, `[{"name":1}]`}
	case *ask.ToolChoice, ask.OldChoice:
		return []string{`1`, `true`, `[]`, `{}`, `"x"`, `{"name":1}`, `{"function":{"name":[]}}`}
	case *ask.AdapterUses:
		return []string{
			`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"id":-1}]`, `[{"id":"0"}]`, `[{"id":0,"scale":"x"}]`, `[{"id":0}]`,
		}
	case *ask.StreamOptions, *ask.TemplateValues:
		return []string{`1`, `true`, `[]`, `"x"`}
	case field.Object:
		return []string{`1`, `true`, `[]`, `"x"`}
	case ask.DraftSources:
		return []string{`1`, `true`, `[]`, `{}`, `"x"`, `""`, `"ngram,"`, `"grammar"`}
	case *ask.Prompts:
		return []string{
			`1`, `true`, `{}`, `[]`, `[[]]`, `[true]`, `[1.5]`, `[-1]`, `[999999]`, `[1e99]`, `{"prompt_string":1}`,
		}
	case *ask.Biases:
		return []string{
			`1`, `true`, `"x"`, `[1]`, `[[1]]`, `[[1,2,3]]`, `[[1,"x"]]`, `{"1":"x"}`, `[[1.5,1]]`, `[[-1,1]]`, `{"1":1e99}`,
			`{"-5":3}`, `{"99999999999":1}`, `{"999999":1}`,
		}
	}
	s := to.Schema()
	switch {
	case s["type"] == "boolean":
		return []string{`"true"`, `1`, `[]`, `{}`}
	case s["enum"] != nil:
		return []string{`1`, `true`, `[]`, `{}`, `"nonsense"`}
	case s["type"] == "string":
		return []string{`1`, `true`, `[]`, `{}`}
	}
	wrong := []string{`"1"`, `true`, `[]`, `{}`, `1e400`, `-1e400`, fmt.Sprint(Bound(s["minimum"]) - 1)}
	if hi := Bound(s["maximum"]); hi < math.MaxInt64 {
		wrong = append(wrong, fmt.Sprint(hi+1))
	}
	if s["type"] == "integer" {
		wrong = append(wrong, `0.5`)
	}
	return wrong
}

// Bound is a bound of a schema.
func Bound(v any) float64 {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v.(float64)
}
