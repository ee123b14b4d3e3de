package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quern-llm/quern/go/engine"
)

// hostile are values of every type, in and out of every range.
var hostile = []string{
	`true`, `false`, `0`, `1`, `-1`, `0.5`, `-0.001`, `1e9`, `-1e9`, `1e40`, `-1e308`, `1e400`, `123456789012345678901234567890`,
	`""`, `"x"`, `"1"`, `"NaN"`, `"true"`, `"\u0000"`, `"\ud800"`, "\"\xff\xfe\"", `"` + strings.Repeat("long ", 200) + `"`,
	`[]`, `[null]`, `[true]`, `[1e40]`, `[[]]`, `[{}]`, `["x",1]`, `["\ud800"]`, `[[1,2],3]`,
	`{}`, `{"":null}`, `{"a":{"b":[1]}}`, `{"type":7}`, `{"type":"x"}`, `{"id":-5}`,
	strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70),
	`NaN`, `Infinity`, `'x'`, `[1,]`, `{`, ``,
}

// Every field of every route, by the OpenAPI document, with values that its schema
// refuses: the client's fault, and the field is named. No value makes a fault of the
// server's, and it goes on.
func TestHostileFields(t *testing.T) {
	s := newRealSite(t, Config{SlotPath: t.TempDir()}, engine.LoopConfig{}, nil)
	h := s.server.Handler()
	var doc struct {
		Paths map[string]map[string]struct {
			Summary     string
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
					Example map[string]json.RawMessage
				}
			}
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(s.server.openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	compile := schemasOf(t, s.server.openAPI)
	sent, done, seen := 0, map[string]bool{}, map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, o := range doc.Paths[path] {
			body, ok := o.RequestBody.Content["application/json"]
			name, isRef := strings.CutPrefix(body.Schema.Ref, "#/components/schemas/")
			if !ok || !isRef || done[name+o.Summary] {
				continue // another path of the same route
			}
			done[name+o.Summary] = true
			at := strings.NewReplacer("{id}", "0").Replace(path)
			if strings.HasPrefix(path, "/slots/") {
				at += "?action=save"
			}
			properties := doc.Components.Schemas[name].Properties
			for _, field := range slices.Sorted(maps.Keys(properties)) {
				check := compile("/components/schemas/" + name + "/properties/" + field)
				// Routes share their fields: all values go to the first route that has one, and an eighth to each of the others.
				key := field + string(properties[field])
				times := seen[key]
				seen[key]++
				for i, value := range hostile {
					part := (len(field)+times+i)%8 == 0
					if validText(check, value) || !part && (times > 0 || testing.Short()) { // the race detector has an eighth of all
						continue
					}
					sent++
					whole := withField(body.Example, field, value)
					status, answer := ask(h, strings.ToUpper(method), at, whole)
					if status < 400 || status >= 500 && status != 501 {
						t.Errorf("%s %s: status %d: %.300s", at, short(whole), status, answer)
					} else if status != http.StatusNotImplemented && isJSON(value) && !bytes.Contains(answer, []byte(field)) {
						t.Errorf("%s %s: %d does not name %s: %.300s", at, short(whole), status, field, answer)
					}
				}
			}
		}
	}
	t.Logf("%d requests to %d routes", sent, len(done))
	if len(done) < 25 || sent < 2000 && !testing.Short() {
		t.Errorf("only %d requests to %d routes", sent, len(done))
	}
	if status, answer := ask(h, "POST", "/completion", `{"prompt":"Once upon a time","n_predict":2,"temperature":0}`); status != 200 {
		t.Errorf("afterwards: %d %s", status, answer)
	}
}

// validText tells whether a schema takes a value, or nothing can be said of it.
func validText(check *jsonschema.Schema, value string) bool {
	if !isJSON(value) {
		return false
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	return err == nil && check.Validate(v) == nil
}

// isJSON tells whether a value is what the parser of bodies takes for JSON.
func isJSON(value string) bool {
	r := newReader([]byte(value))
	_, err := r.raw()
	return err == nil && r.end() == nil
}

// withField is an example of a body with another value for a field.
func withField(example map[string]json.RawMessage, field, value string) string {
	parts := []string{}
	for name, v := range example {
		if name != field {
			parts = append(parts, `"`+name+`":`+string(v))
		}
	}
	slices.Sort(parts)
	return "{" + strings.Join(append(parts, `"`+field+`":`+value), ",") + "}"
}

func short(text string) string {
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	return text
}
