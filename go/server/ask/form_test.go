package ask_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Answers are one of the choices, whichever way they are asked for and whatever
// else runs.
func TestAnswersAreOneOfTheChoices(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	choices := []string{"yes", "no", "no, thanks", "\u00fcber \u2603 alles", " 42",
		"Once upon a time, there was nothing at all."}
	list, _ := json.Marshal(choices)
	var mu sync.Mutex
	seen := map[string]int{}
	check := func(how, text, reason string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		seen[text]++
		if !slices.Contains(choices, text) || reason != "stop" {
			t.Errorf("%s: %q, %s", how, text, reason)
		}
	}
	type answer struct {
		Choices []struct {
			Text, Finish_reason string
			Message, Delta      struct{ Content string }
			Index               int
		}
	}
	free := func() { // beside them
		if got := fake.Post[answer](s, "/v1/completions",
			`{"prompt":"Once","max_tokens":30,"seed":1}`).Choices[0].Text; len(got) < 30 {
			t.Errorf("a free answer is %q", got)
		}
	}
	var wg sync.WaitGroup
	for seed := range 12 {
		wg.Go(free)
		wg.Go(func() {
			body := fmt.Sprintf(`{"prompt":"Is it?","n":4,"seed":%d,"temperature":10,"top_k":0,"top_p":1,"min_p":0,"guided_choice":%s}`, seed*4, list)
			for _, c := range fake.Post[answer](s, "/v1/completions", body).Choices {
				check("completions", c.Text, c.Finish_reason)
			}
			body = fmt.Sprintf(`{"messages":[{"role":"user","content":"Is it?"}],"n":4,"seed":%d,"temperature":3,"structured_outputs":{"choice":%s,"regex":null}}`, seed, list)
			for _, c := range fake.Post[answer](s, "/v1/chat/completions", body).Choices {
				check("chat", c.Message.Content, c.Finish_reason)
			}
		})
		wg.Go(func() {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Is it?"}],"n":4,"seed":%d,"temperature":5,"stream":true,"logprobs":true,"top_logprobs":3,"guided_choice":%s}`, seed, list)
			texts, reasons := [4]string{}, [4]string{}
			for _, data := range s.Events("/v1/chat/completions", body) {
				if data == "[DONE]" {
					break
				}
				for _, c := range fake.Parse[answer](t, []byte(data)).Choices {
					texts[c.Index] += c.Delta.Content
					reasons[c.Index] += c.Finish_reason
				}
			}
			for i := range texts {
				check("stream", texts[i], reasons[i])
			}
		})
		wg.Go(func() { // gone before it ends
			ctx, cancel := context.WithCancel(t.Context())
			body := fmt.Sprintf(`{"prompt":"Is it?","n_predict":500,"n":4,"stream":true,"guided_choice":[%q]}`,
				strings.Repeat("never ", 400))
			req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/completion", strings.NewReader(body))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				cancel()
				return
			}
			io.ReadFull(resp.Body, make([]byte, 200))
			cancel()
			resp.Body.Close()
		})
	}
	wg.Wait()
	if len(seen) < 4 {
		t.Errorf("only %v were chosen: the test does not test that", seen)
	}
	// The likeliest of the choices, and a limit.
	type native struct {
		Content, Stop_type string
	}
	if got := fake.Post[native](s, "/completion",
		`{"prompt":"Once upon a","temperature":0,"guided_choice":[" car"," time"," the"]}`); got != (native{" time", "eos"}) {
		t.Errorf("the likeliest is %+v", got)
	}
	if got := fake.Post[native](s, "/completion",
		`{"prompt":"Once","n_predict":2,"guided_choice":["xxxxxxxxxxxxxxxxxxxx"]}`); got.Stop_type != "limit" ||
		!strings.HasPrefix("xxxxxxxxxxxxxxxxxxxx", got.Content) {
		t.Errorf("with a limit %+v", got)
	}
	if got := fake.Post[native](s, "/completion",
		`{"prompt":"Once","ignore_eos":true,"guided_choice":["on"]}`); got.Content != "on" {
		t.Errorf("with ignore_eos %+v", got)
	}
}

// hard is what samplers are given in tests of forms: any token that is allowed may come.
const hard = `"temperature":5,"top_k":0,"top_p":1,"min_p":0`

const personSchema = `{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":150},
	"tags":{"type":"array","items":{"enum":["a","b","c"]},"maxItems":3,"uniqueItems":true},"born":{"type":"string","format":"date"},
	"kind":{"anyOf":[{"const":"x"},{"type":"null"},{"type":"number","multipleOf":0.5,"minimum":-2,"maximum":2}]}},
	"required":["name","age","kind"],"additionalProperties":false}`

// Answers have the form that was asked for, whichever field asks and whatever else runs:
// every one that ends by itself is a document that an independent library takes.
func TestAnswersHaveTheForm(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(personSchema))
	if err == nil {
		err = compiler.AddResource("person.json", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	person, err := compiler.Compile("person.json")
	if err != nil {
		t.Fatal(err)
	}
	isPerson := func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return person.Validate(v)
	}
	matches := func(pattern string) func(string) error {
		return func(text string) error {
			if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text) {
				return fmt.Errorf("is not %s", pattern)
			}
			return nil
		}
	}
	anyObject := func(text string) error {
		var m map[string]any
		return json.Unmarshal([]byte(text), &m)
	}
	quoted, _ := json.Marshal(personSchema)
	one := strings.Join(strings.Fields(personSchema), " ")
	type answer struct {
		Content, Stop_type string
		Choices            []struct {
			Text, Finish_reason string
			Message, Delta      struct{ Content string }
			Index               int
		}
	}
	var wg sync.WaitGroup
	var ended atomic.Int32
	check := func(body, text string, ok bool, is func(string) error) {
		if !ok { // cut off
			return
		}
		ended.Add(1)
		if err := is(text); err != nil {
			t.Errorf("%.150s: %q: %v", body, text, err)
		}
	}
	for i, tt := range []struct {
		form string
		is   func(string) error
	}{
		{`"response_format":{"type":"json_schema","json_schema":{"name":"person","strict":true,"schema":` + one + `}}`,
			isPerson},
		{`"response_format":{"type":"json_object","schema":` + one + `}`, isPerson},
		{`"response_format":{"type":"json_object"}`, anyObject},
		{`"json_schema":` + one, isPerson},
		{`"guided_json":` + string(quoted), isPerson},
		{`"structured_outputs":{"json":` + one + `,"disable_any_whitespace":true}`, isPerson},
		{`"guided_regex":"[a-f]{3}-\\d{2}(?!0)\\d"`, matches(`[a-f]{3}-\d{2}[1-9]`)},
		{`"structured_outputs":{"regex":"(yes|no)!?"}`, matches(`(yes|no)!?`)},
		{`"grammar":"root ::= [a-c]+ (\"-\" root)?"`, matches(`[a-c]+(-[a-c]+)*`)},
		{`"guided_grammar":"start: word (\" \" word)~1..2\nword: /[x-z]{2}/"`, matches(`[x-z]{2}( [x-z]{2}){1,2}`)},
		{`"structured_outputs":{"structural_tag":{"structures":[{"begin":"a","schema":{"const":1},"end":"!"}],"triggers":["a"]}}`, matches(`[^a]*(a1![^a]*)*`)},
		{`"structured_outputs":{"structural_tag":"{\"type\":\"structural_tag\",\"format\":{\"type\":\"triggered_tags\",\"triggers\":[\"a\"],\"tags\":[{\"begin\":\"a\",\"content\":{\"type\":\"regex\",\"pattern\":\"[xy]{2}\"},\"end\":\"!\"}],\"at_least_one\":true}}"}`, matches(`a[xy]{2}![^a]*(a[xy]{2}![^a]*)*`)},
		{`"response_format":{"type":"structural_tag","format":{"type":"sequence","elements":[{"type":"const_string","value":"n: "},{"type":"json_schema","json_schema":{"enum":[1,22]}}]}}`, matches(`n: (1|22)`)},
	} {
		wg.Go(func() {
			body := fmt.Sprintf(`{"prompt":"Once","n_predict":150,"seed":%d,%s,%s}`, i, hard, tt.form)
			if !strings.Contains(tt.form, "response_format") {
				a := fake.Post[answer](s, "/completion", body)
				check(body, a.Content, a.Stop_type == "eos", tt.is)
			}
		})
		wg.Go(func() {
			body := fmt.Sprintf(`{"prompt":"Once","max_tokens":150,"n":2,"seed":%d,%s,%s}`, i, hard, tt.form)
			for _, c := range fake.Post[answer](s, "/v1/completions", body).Choices {
				check(body, c.Text, c.Finish_reason == "stop", tt.is)
			}
		})
		wg.Go(func() {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Who?"}],"max_tokens":150,"n":4,"seed":%d,"stream":true,%s,%s}`, i, hard, tt.form)
			texts, reasons := [4]string{}, [4]string{}
			for _, data := range s.Events("/v1/chat/completions", body) {
				if data == "[DONE]" {
					break
				}
				for _, c := range fake.Parse[answer](t, []byte(data)).Choices {
					texts[c.Index] += c.Delta.Content
					reasons[c.Index] += c.Finish_reason
				}
			}
			for k := range texts {
				check(body, texts[k], reasons[k] == "stop", tt.is)
			}
		})
		wg.Go(func() { // gone before it ends
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+3*i)*time.Millisecond)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/completions",
				strings.NewReader(fmt.Sprintf(`{"prompt":"Once","max_tokens":150,"stream":true,%s,%s}`, hard, tt.form)))
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	if n := ended.Load(); n < 25 {
		t.Errorf("only %d answers ended by themselves: the test does not test them", n)
	}
}

// A schema is read as its authors mean it or to the letter, as the request or else the server says: with members in order, or not.
func TestReadingsOfSchemas(t *testing.T) {
	t.Parallel()
	usual := fake.Demo(t, fake.Setup{})
	exact := fake.Demo(t, fake.Setup{Model: func(m *ask.Model) {
		var err error
		if m.Defaults, err = server.ReadDefaults([]byte(`{"guided_schema":"exact"}`)); err != nil {
			t.Error(err)
		}
	}})
	for _, tt := range []struct {
		s          *fake.Site
		field      string
		inAnyOrder bool
	}{
		{usual, "", false},
		{usual, `"guided_schema":"exact",`, true},
		{exact, "", true},
		{exact, `"guided_schema":"closed",`, false},
		{exact, `"structured_outputs":{"disable_additional_properties":true},`, false},
	} {
		first := map[string]int{}
		for seed := range 4 {
			for _, c := range fake.Post[struct{ Choices []struct{ Text string } }](tt.s, "/v1/completions", fmt.Sprintf(
				`{"prompt":"Once","n":6,"seed":%d,"temperature":10,"top_k":0,"top_p":1,"min_p":0,"max_tokens":60,%s
				"guided_json":{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"],"additionalProperties":false}}`,
				seed, tt.field)).Choices {
				var got map[string]float64
				if json.Unmarshal([]byte(c.Text), &got) != nil || got["a"] != 1 || got["b"] != 2 || len(got) != 2 {
					t.Errorf("%s: %q", tt.field, c.Text)
				}
				first[regexp.MustCompile(`[ab]`).FindString(c.Text)]++
			}
		}
		if first["a"] == 0 || (first["b"] > 0) != tt.inAnyOrder {
			t.Errorf("%s: first members are %v", tt.field, first)
		}
	}
}

func TestFormsRefused(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	for _, tt := range []struct{ field, param, want string }{
		{`"guided_choice":[]`, "guided_choice", "0 choices, want 1 to 65536"},
		{`"guided_choice":["a",""]`, "guided_choice", "a choice is empty"},
		{`"guided_choice":["a",3]`, "guided_choice", "want an array of strings"},
		{`"guided_choice":"a"`, "guided_choice", "want an array of strings"},
		{`"structured_outputs":["a"]`, "structured_outputs", "want an object"},
		{`"structured_outputs":{"choice":"a"}`, "structured_outputs", "choice: "},
		{`"structured_outputs":{"xml":"a"}`, "structured_outputs", `"xml" is no form`},
		{`"structured_outputs":{"json":{},"regex":"a"}`, "structured_outputs",
			"regex: given together with structured_outputs"},
		{`"structured_outputs":{"structural_tag":{"format":{}}}`, "structured_outputs", "format: type: missing"},
		{`"structured_outputs":{"structural_tag":5}`, "structured_outputs", "structural_tag: 5, want a structural tag"},
		{`"structured_outputs":{"structural_tag":{"structures":[{"begin":"b","schema":{}}],"triggers":["a"]}}`,
			"structured_outputs", "begins with no trigger"},
		{`"grammar":"root ::= \"a\"","json_schema":{}`, "json_schema", "given together with grammar"},
		{`"grammar":"root ::= ("`, "grammar", ""},
		{`"grammar":"start: nope"`, "grammar", "nope"},
		{`"grammar":5`, "grammar", "want a grammar"},
		{`"json_schema":5`, "json_schema", "want a JSON schema"},
		{`"guided_schema":"loose"`, "guided_schema", "want one of closed, exact"},
		{`"json_schema":{"properties":{"a":{"$ref":"https://example.com/a.json"}}}`, "json_schema",
			"#/properties/a/$ref"},
		{`"guided_json":"{"`, "guided_json", "ends in the middle"},
		{`"guided_regex":"(a)\\1"`, "guided_regex", "back reference"},
		{`"guided_json":{},"guided_whitespace_pattern":"("`, "guided_json", "the pattern of white space: ) is missing"},
	} {
		status, b, _ := s.Do("POST", "/completion", `{"prompt":"Once",`+tt.field+`}`)
		if e := fake.Parse[struct {
			Error struct{ Message, Param string }
		}](t, b).Error; status != 400 || e.Param != tt.param || !strings.Contains(e.Message, tt.want) {
			t.Errorf("%.80s: %d %.300s, want %q", tt.field, status, b, tt.want)
		}
	}
	for _, tt := range []struct{ format, want string }{
		{`5`, "want an object"}, {`{}`, "type: missing"}, {`{"type":"xml"}`, `type: the string "xml"`},
		{`{"type":"json_schema"}`, "schema: missing"},
		{`{"type":"json_schema","json_schema":{"schema":5}}`, "json_schema: schema: 5, want a JSON schema"},
		{`{"type":"json_object","schema":{"type":"x"}}`, "#/type"},
		{`{"type":"json_object"},"guided_choice":["a"]`, "given together with response_format"},
		{`{"type":"json_schema","json_schema":{"schema":{"pattern":"("}}}`, "#/pattern"},
	} {
		status, b, _ := s.Do("POST", "/v1/chat/completions", `{`+fake.Hi+`,"response_format":`+tt.format+`}`)
		if status != 400 || !strings.Contains(fake.Parse[struct{ Error struct{ Message string } }](t, b).Error.Message,
			tt.want) {
			t.Errorf("%.80s: %d %.300s, want %q", tt.format, status, b, tt.want)
		}
	}
	if status, b, _ := s.Do("POST", "/v1/chat/completions",
		`{`+fake.Hi+`,"max_tokens":2,"response_format":{"type":"text"},"grammar":"","guided_choice":null,"structured_outputs":{"json":null}}`); status != 200 {
		t.Errorf("no form: %d %s", status, b)
	}
}
