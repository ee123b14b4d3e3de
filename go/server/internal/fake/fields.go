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

// WrongFields sends every field of a route's body with every wrong type, and with numbers just outside of its range:
// each is refused by name. fields are the ones that a request must have; wrong has wrong values for the types of
// targets that only this API has, by their names.
func WrongFields(t *testing.T, routes []answer.Route, path, fields string, wrong map[string][]string) {
	t.Helper()
	s := New(t, "Hello", nil)
	sent := 0
	for _, f := range Body(t, routes, path).Defaults(&ask.Model{}).Fields() {
		for _, name := range f.Names {
			values := wrong[fmt.Sprintf("%T", f.To)]
			if values == nil {
				values = wrongValues(f.To)
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

// wrongByType has wrong values of types that other packages cannot name, by their names.
var wrongByType = map[string][]string{
	"ask.Neutral":         {`[7]`, `{"a":7}`, `"nonsense"`},
	"*ask.stopWords":      {`1`, `true`, `{}`, `[1]`, `[[]]`},
	"*ask.samplerList":    {`1`, `true`, `{}`, `[1]`, `[[]]`},
	"*ask.Idle":           {`"1"`, `true`, `[]`, `{}`, `1e400`},
	"*field.Texts":        {`1`, `true`, `{}`, `"x"`, `[1]`, `[[]]`},
	"*ask.breakers":       {`1`, `true`, `{}`, `"x"`, `[1]`, `[[]]`},
	"ask.formText":        {`1`, `true`, `[]`, `{}`},
	"ask.formChoice":      {`1`, `true`, `{}`, `"x"`, `[]`, `[1]`, `[[]]`, `[""]`},
	"*ask.Messages":       {`1`, `true`, `{}`, `"x"`, `[1.5]`, `[[]]`},
	"ask.sentMessages":    {`1`, `true`, `{}`, `"x"`, `[1.5]`, `[[]]`},
	"*ask.TokenList":      {`1`, `true`, `{}`, `"x"`, `[1.5]`, `[[]]`},
	"*ask.ToolChoice":     {`1`, `true`, `[]`, `{}`, `"x"`, `{"name":1}`, `{"function":{"name":[]}}`},
	"ask.oldChoice":       {`1`, `true`, `[]`, `{}`, `"x"`, `{"name":1}`, `{"function":{"name":[]}}`},
	"*ask.streamOptions":  {`1`, `true`, `[]`, `"x"`},
	"*ask.TemplateValues": {`1`, `true`, `[]`, `"x"`},
	"field.Object":        {`1`, `true`, `[]`, `"x"`},
	"ask.draftSources":    {`1`, `true`, `[]`, `{}`, `"x"`, `""`, `"ngram,"`, `"grammar"`},
	"ask.structured": {
		`1`, `true`, `[]`, `"x"`, `{"choice":1}`, `{"choice":[1]}`, `{"choice":[]}`, `{"regex":1}`, `{"json":1}`,
		`{"json_object":"x"}`, `{"grammar":[]}`, `{"structural_tag":1}`, `{"xml":"x"}`,
	},
	"ask.ResponseForm": {
		`1`, `true`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"type":"x"}`, `{"type":"json_schema"}`,
		`{"type":"json_schema","json_schema":1}`, `{"type":"json_object","schema":1}`, `{"type":"json_object","value":1}`,
	},
	"*ask.triggers": {
		`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"type":"word"}]`, `[{"type":"x","value":"a"}]`,
		`[{"type":9,"value":"a"}]`,
		`[{"type":"token"}]`, `[{"type":"token","token":-1}]`, `[{"type":"word","value":1}]`,
	},
	"*ask.Tools": {`1`, `true`, `{}`, `"x"`, `[1]`, `[[]]`, `[{}]`, `[{"type":"function","function":1}]`,
		`[{"name":1}]`},
	"ask.bareTools": {`1`, `true`, `{}`, `"x"`, `[1]`, `[[]]`, `[{}]`, `[{"type":"function","function":1}]`,
		`[{"name":1}]`},
	"*ask.AdapterUses": {
		`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"id":-1}]`, `[{"id":"0"}]`, `[{"id":0,"scale":"x"}]`, `[{"id":0}]`,
	},
	"*ask.Prompts": {
		`1`, `true`, `{}`, `[]`, `[[]]`, `[true]`, `[1.5]`, `[-1]`, `[999999]`, `[1e99]`, `{"prompt_string":1}`,
	},
	"*ask.biases": {
		`1`, `true`, `"x"`, `[1]`, `[[1]]`, `[[1,2,3]]`, `[[1,"x"]]`, `{"1":"x"}`, `[[1.5,1]]`, `[[-1,1]]`, `{"1":1e99}`,
		`{"-5":3}`, `{"99999999999":1}`, `{"999999":1}`,
	},
}

// wrongValues are values that a target refuses: by the name of its type, or by its schema.
func wrongValues(to field.Target) []string {
	if values := wrongByType[fmt.Sprintf("%T", to)]; values != nil {
		return values
	}
	if schema, ok := to.(ask.FormSchema); ok {
		return append([]string{`1`, `[]`}, map[bool][]string{false: {`"x"`}}[schema.Quoted]...)
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
