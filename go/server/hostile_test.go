package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quern-llm/quern/go/internal/cputime"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// hostile are values of every type, in and out of every range.
var hostile = []string{
	`true`, `false`, `0`, `1`, `-1`, `0.5`, `-0.001`, `1e9`, `-1e9`, `1e40`, `-1e308`, `1e400`,
	`123456789012345678901234567890`,
	`""`, `"x"`, `"1"`, `"NaN"`, `"true"`, `"\u0000"`, `"\ud800"`, "\"\xff\xfe\"",
	`"` + strings.Repeat("long ", 200) + `"`,
	`[]`, `[null]`, `[true]`, `[1e40]`, `[[]]`, `[{}]`, `["x",1]`, `["\ud800"]`, `[[1,2],3]`,
	`{}`, `{"":null}`, `{"a":{"b":[1]}}`, `{"type":7}`, `{"type":"x"}`, `{"id":-5}`,
	strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70),
	`NaN`, `Infinity`, `'x'`, `[1,]`, `{`, ``,
}

// documented is what the tests read of the OpenAPI document.
type documented struct {
	Paths map[string]map[string]struct {
		Summary     string
		Parameters  []documentedParam
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

type documentedParam struct {
	In, Name string
	Schema   struct {
		Type             string
		Minimum, Maximum *int
		Enum             []string
	}
}

// newWholeSite serves everything that a server may have.
func newWholeSite(t *testing.T) (*fake.Site, documented) {
	t.Helper()
	s := newWholeSiteOf(t, nil)
	var doc documented
	if err := json.Unmarshal(s.Get("/openapi.json"), &doc); err != nil {
		t.Fatal(err)
	}
	return s, doc
}

// newWholeSiteOf is newWholeSite with a function that tells whose a request is.
func newWholeSiteOf(t *testing.T, caller func(*gin.Context) answer.Caller) *fake.Site {
	t.Helper()
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return fake.Demo(t, fake.Setup{Server: server.Config{SlotPath: t.TempDir(), LoraDir: t.TempDir(), Batches: store, Tune: noTuning{},
		Tools: fake.Weather{}, Proxy: true, Library: &fake.Shelf{}, Caller: caller}})
}

// Every field of every route, by the OpenAPI document, with values that its schema
// refuses: the client's fault, and the field is named. No value makes a fault of the
// server's, and it goes on.
func TestHostileFields(t *testing.T) {
	t.Parallel()
	s, doc := newWholeSite(t)
	h := s.Server.Handler()
	compile := s.Document().Schema
	sent, done, seen, cannot := 0, map[string]bool{}, map[string]int{}, map[string]bool{}
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
					status, answer := fake.Ask(h, strings.ToUpper(method), at, whole)
					if status == http.StatusNotImplemented {
						cannot[at] = true
					} else if status < 400 || status >= 500 {
						t.Errorf("%s %s: status %d: %.300s", at, short(whole), status, answer)
					} else if isJSON(value) && !bytes.Contains(answer, []byte(field)) {
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
	if len(cannot) > 0 { // where nothing was checked
		t.Errorf("not supported: %v", slices.Sorted(maps.Keys(cannot)))
	}
	if status, answer := fake.Ask(h, "POST", "/completion",
		`{"prompt":"Once upon a time","n_predict":2,"temperature":0}`); status != 200 {
		t.Errorf("afterwards: %d %s", status, answer)
	}
}

// Every field of every route with values that are absurdly large: none makes a fault of the server's, none takes long,
// and the server goes on. What a field bounds is refused by it; what has no bound of its own is bounded by the whole.
func TestEnormousFields(t *testing.T) {
	t.Parallel()
	s, doc := newWholeSite(t)
	h := s.Server.Handler()
	enormous := map[string]string{
		"2^63": "9223372036854775808", "-2^63": "-9223372036854775808", "1e308": "1e308", "2^31": "2147483648",
		"a million zeros":   "[" + strings.Repeat("0,", 999_999) + "0]",
		"a million texts":   "[" + strings.Repeat(`"",`, 999_999) + `""]`,
		"a million letters": `"` + strings.Repeat("x", 1_000_000) + `"`,
		"a million members": "{" + strings.Repeat(`"a":0,`, 999_999) + `"b":0}`,
		"deep lists":        strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000),
		"deep objects":      strings.Repeat(`{"a":`, 300_000) + "1" + strings.Repeat("}", 300_000),
	}
	sent, seen := 0, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, o := range doc.Paths[path] {
			name, isRef := strings.CutPrefix(o.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
			if !isRef {
				continue
			}
			example := o.RequestBody.Content["application/json"].Example
			at := strings.Replace(path, "{id}", "0", 1)
			if strings.HasPrefix(path, "/slots/") {
				at += "?action=save"
			}
			properties := doc.Components.Schemas[name].Properties
			for i, field := range slices.Sorted(maps.Keys(properties)) {
				key := field + string(properties[field]) // routes share fields, and one is enough
				if seen[key] {
					continue
				}
				seen[key] = true
				for k, what := range slices.Sorted(maps.Keys(enormous)) {
					if len(enormous[what]) > 1000 && testing.Short() && (i+k)%8 > 0 {
						continue
					}
					sent++
					begun := cputime.Of(func() {
						if status, answer := fake.Ask(h, strings.ToUpper(method), at, withField(example, field, enormous[what])); status >= 500 && status != http.StatusNotImplemented {
							t.Errorf("%s %s, %s is %s: status %d: %.300s", method, at, field, what, status, answer)
						}
					})
					if begun > 5*time.Second {
						t.Errorf("%s %s, %s is %s: took %v of CPU", method, at, field, what, begun)
					}
				}
			}
		}
	}
	t.Logf("%d requests with %d fields", sent, len(seen))
	if len(seen) < 100 {
		t.Errorf("only %d fields", len(seen))
	}
	if status, answer := fake.Ask(h, "POST", "/completion", `{"prompt":"Once upon a time","n_predict":2,"temperature":0}`); status != 200 {
		t.Errorf("afterwards: %d %s", status, answer)
	}
}

// Every parameter of every route, by the document: what it does not allow is the client's fault, and the parameter is
// named.
func TestHostileParameters(t *testing.T) {
	t.Parallel()
	s, doc := newWholeSite(t)
	h := s.Server.Handler()
	stored := fake.Post[struct{ ID string }](s, "/v1/responses", `{"input":"x","max_output_tokens":1}`).ID
	kept := fake.Post[struct{ ID string }](s, "/v1/chat/completions", `{`+fake.Hi+`,"max_tokens":1,"store":true}`).ID
	sent := 0
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, o := range doc.Paths[path] {
			for _, p := range o.Parameters {
				if p.Schema.Type == "string" {
					continue
				}
				for _, value := range append(hostile, " ", "%", "1e3", "+-1", "99999999999999999999", "asc,desc") {
					if value == "" || p.takes(value) {
						continue
					}
					at, query := path, ""
					switch id := (map[bool]string{true: stored, false: kept})[strings.Contains(path, "responses")]; {
					case p.In == "path" && (strings.Contains(value, "/") || value == "."):
						continue
					case p.In == "path":
						at, query = strings.Replace(at, "{"+p.Name+"}", url.PathEscape(value), 1), "?action=erase"
					case strings.HasPrefix(path, "/slots/"):
						at, query = "/slots/0", "?"+p.Name+"="+url.QueryEscape(value)
					default:
						at, query = strings.Replace(at, "{id}", id, 1), "?"+p.Name+"="+url.QueryEscape(value)
					}
					sent++
					if status, answer := fake.Ask(h, strings.ToUpper(method), at+query, ""); status != 400 ||
						!bytes.Contains(answer, []byte(p.Name)) {
						t.Errorf("%s %s%s: %d %.200s", method, at, query, status, answer)
					}
				}
			}
		}
	}
	t.Logf("%d requests", sent)
	if sent < 500 {
		t.Errorf("only %d requests", sent)
	}
}

// A file that a batch needs stays, a body that is compressed is not read, and the errors have their types.
func TestConflicts(t *testing.T) {
	t.Parallel()
	s, _ := newWholeSite(t)
	const form = "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\nContent-Disposition: " +
		"form-data; name=\"file\"; filename=\"a\"\r\n\r\n{}\r\n--x--\r\n"
	send := func(method, path, body, header, value string) (int, []byte) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		s.Server.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.Bytes()
	}
	status, b := send("POST", "/v1/files", form, "Content-Type", "multipart/form-data; boundary=x")
	file := fake.Parse[struct{ ID string }](t, b).ID
	if status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	// which nobody runs
	fake.Post[struct{}](s, "/v1/batches", `{"input_file_id":"`+file+
		`","endpoint":"/v1/completions","completion_window":"24h"}`)
	for _, tt := range []struct {
		method, path, header, value string
		status                      int
	}{{"DELETE", "/v1/files/" + file, "A", "b", 409}, {"POST", "/v1/completions", "Content-Encoding", "gzip", 415}} {
		status, b := send(tt.method, tt.path, "{}", tt.header, tt.value)
		if e := fake.ErrorOf(t, b); status != tt.status || e.Type != "invalid_request_error" || e.Message == "" {
			t.Errorf("%s: %d %s", tt.path, status, b)
		}
	}
}

// takes tells whether the schema of a parameter takes a text.
func (p *documentedParam) takes(text string) bool {
	if p.Schema.Enum != nil {
		return slices.Contains(p.Schema.Enum, text)
	}
	n, err := strconv.Atoi(text)
	return err == nil && (p.Schema.Minimum == nil || n >= *p.Schema.Minimum) &&
		(p.Schema.Maximum == nil || n <= *p.Schema.Maximum)
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
	r := field.NewReader([]byte(value))
	_, err := r.Raw()
	return err == nil && r.End() == nil
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

// noTuning is for servers whose fine-tuning jobs are created, and never run.
type noTuning struct{}

func (noTuning) Identity(string) (string, error)         { return "", nil }
func (noTuning) Tune(context.Context, *batch.Work) error { return errors.New("no job is run here") }
