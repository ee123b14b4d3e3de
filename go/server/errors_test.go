package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/llamaserver"
	"github.com/quern-llm/quern/go/server/openai"
	"github.com/quern-llm/quern/go/tokenizer"
)

type errorAnswer struct {
	Error struct {
		Code    any
		Message string
		Type    string
		Param   string
		Prompt  int `json:"n_prompt_tokens"`
		Ctx     int `json:"n_ctx"`
		Queued  int `json:"n_queued"`
	}
}

// asks asks a handler without a network.
func asks(h http.Handler, method, path, body string) (int, []byte) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json") // without which no tool is called
	h.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// refused checks that a request is refused for a field, by name.
func (s *site) refused(path, body string, status int, param string) {
	s.t.Helper()
	got, b, _ := s.do("POST", path, body)
	e := parse[errorAnswer](s.t, b).Error
	if strings.HasPrefix(path, "/v1/messages") { // Anthropic's have neither
		e.Code, e.Param = status, param
	}
	if got != status || fmt.Sprint(e.Code) != fmt.Sprint(status) || e.Type == "" || e.Message == "" || e.Param != param || !strings.HasPrefix(e.Message, param) {
		if len(body) > 200 {
			body = body[:200]
		}
		s.t.Errorf("POST %s %s: got %d %s, want %d for %q", path, body, got, b, status, param)
	}
}

var generating = []struct {
	path, fields string
	body         answer.Body
}{
	{"/v1/chat/completions", hi, answer.BodyOf("ChatRequest", openai.NewChatQuery)},
	{"/v1/completions", `"prompt":"x"`, answer.BodyOf("CompletionRequest", openai.NewTextQuery)},
	{"/completion", `"prompt":"x"`, answer.BodyOf("NativeRequest", llamaserver.NewNativeQuery)},
	{"/infill", `"input_prefix":"x"`, answer.BodyOf("InfillRequest", llamaserver.NewInfillQuery)},
	{"/v1/messages", ask1, answer.BodyOf("MessagesRequest", anthropic.NewQuery)},
	{"/v1/responses", `"input":"x"`, answer.BodyOf("ResponsesRequest", (&openai.API{}).NewResponsesQuery)},
}

// Every field of every endpoint, with every wrong type and just outside of its
// range.
func TestWrongFields(t *testing.T) {
	s := newSite(t, "Hello", nil)
	n := 0
	for _, e := range generating {
		for _, f := range e.body.Defaults(&ask.Model{}).Fields() {
			for _, name := range f.Names {
				for _, v := range wrongValues(f.To) {
					body := "{" + e.fields + `,"` + name + `":` + v + "}"
					if at := strings.Index(e.fields, `"`+name+`":`); at >= 0 {
						body = "{" + e.fields[:at] + `"` + name + `":` + v + "}"
					}
					s.refused(e.path, body, 400, name)
					n++
				}
			}
		}
	}
	if n < 1000 {
		t.Errorf("only %d requests", n)
	}
}

// wrongValues are values that a target refuses, whatever it is.
func wrongValues(to field.Target) []string {
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
		return []string{`1`, `true`, `[]`, `"x"`, `{"choice":1}`, `{"choice":[1]}`, `{"choice":[]}`, `{"regex":1}`, `{"json":1}`, `{"json_object":"x"}`, `{"grammar":[]}`, `{"structural_tag":1}`, `{"xml":"x"}`}
	case ask.FormText:
		return []string{`1`, `true`, `[]`, `{}`}
	case ask.FormSchema:
		return append([]string{`1`, `[]`}, map[bool][]string{false: {`"x"`}}[to.Quoted]...)
	case ask.FormChoice:
		return []string{`1`, `true`, `{}`, `"x"`, `[]`, `[1]`, `[[]]`, `[""]`}
	case ask.ResponseForm:
		return []string{`1`, `true`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"type":"x"}`, `{"type":"json_schema"}`, `{"type":"json_schema","json_schema":1}`, `{"type":"json_object","schema":1}`, `{"type":"json_object","value":1}`}
	case ask.SentMessages:
		return wrongValues(to.Messages)
	case *ask.Messages, *ask.TokenList, *llamaserver.ExtraFiles:
		return []string{`1`, `true`, `{}`, `"x"`, `[1.5]`, `[[]]`}
	case *ask.Triggers:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"type":"word"}]`, `[{"type":"x","value":"a"}]`, `[{"type":9,"value":"a"}]`, `[{"type":"token"}]`, `[{"type":"token","token":-1}]`, `[{"type":"word","value":1}]`}
	case *ask.Tools, ask.BareTools:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`, `[[]]`, `[{}]`, `[{"type":"function","function":1}]`, `[{"name":1}]`}
	case *ask.ToolChoice, ask.OldChoice:
		return []string{`1`, `true`, `[]`, `{}`, `"x"`, `{"name":1}`, `{"function":{"name":[]}}`}
	case *ask.AdapterUses:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"id":-1}]`, `[{"id":"0"}]`, `[{"id":0,"scale":"x"}]`, `[{"id":0}]`}
	case *ask.StreamOptions, *ask.TemplateValues:
		return []string{`1`, `true`, `[]`, `"x"`}
	case *anthropic.AbsentFeature:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`}
	case field.Object, *openai.Kept:
		return []string{`1`, `true`, `[]`, `"x"`}
	case *anthropic.System:
		return []string{`1`, `true`, `{}`, `[1]`, `[{}]`, `[{"type":"text"}]`, `[{"type":"text","text":1}]`, `[{"type":"image"}]`}
	case *anthropic.Turns:
		return []string{`1`, `true`, `{}`, `"x"`, `[]`, `[1]`, `[{}]`, `[{"role":1}]`, `[{"role":"user"}]`, `[{"role":"user","content":1}]`, `[{"role":"user","content":[{"type":1}]}]`}
	case anthropic.Tools:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"name":"f"}]`, `[{"name":1,"input_schema":{}}]`, `[{"name":"f","input_schema":[]}]`}
	case *anthropic.Choice, *anthropic.Thinking:
		return []string{`1`, `true`, `[]`, `"x"`, `{}`, `{"type":1}`, `{"type":"x"}`}
	case *anthropic.OutputConfig:
		return []string{`1`, `true`, `[]`, `"x"`, `{"effort":1}`, `{"effort":"x"}`, `{"format":1}`, `{"format":{"type":"x"}}`}
	case *openai.ResponseItems:
		return []string{`1`, `true`, `{}`, `[1]`, `[{}]`, `[{"type":1}]`, `[{"role":"user","content":1}]`, `[{"role":"user","content":[1]}]`, `[{"type":"reasoning","summary":1}]`}
	case *openai.ResponseTools:
		return []string{`1`, `true`, `{}`, `"x"`, `[1]`, `[{}]`, `[{"type":"function"}]`, `[{"type":"function","name":1}]`, `[{"type":"namespace","name":"n","tools":1}]`}
	case openai.ChoiceOf:
		return wrongValues(to.To)
	case *openai.ReasoningOptions:
		return []string{`1`, `true`, `[]`, `"x"`, `{"effort":1}`, `{"summary":"x"}`}
	case *openai.TextOptions:
		return []string{`1`, `true`, `[]`, `"x"`, `{"format":1}`, `{"format":{"type":"x"}}`, `{"verbosity":1}`}
	case ask.DraftSources:
		return []string{`1`, `true`, `[]`, `{}`, `"x"`, `""`, `"ngram,"`, `"grammar"`}
	case *ask.Prompts:
		return []string{`1`, `true`, `{}`, `[]`, `[[]]`, `[true]`, `[1.5]`, `[-1]`, `[999999]`, `[1e99]`, `{"prompt_string":1}`}
	case *ask.Biases:
		return []string{`1`, `true`, `"x"`, `[1]`, `[[1]]`, `[[1,2,3]]`, `[[1,"x"]]`, `{"1":"x"}`, `[[1.5,1]]`, `[[-1,1]]`, `{"1":1e99}`, `{"-5":3}`, `{"99999999999":1}`, `{"999999":1}`}
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
	wrong := []string{`"1"`, `true`, `[]`, `{}`, `1e400`, `-1e400`, fmt.Sprint(bound(s["minimum"]) - 1)}
	if hi := bound(s["maximum"]); hi < math.MaxInt64 {
		wrong = append(wrong, fmt.Sprint(hi+1))
	}
	if s["type"] == "integer" {
		wrong = append(wrong, `0.5`)
	}
	return wrong
}

func bound(v any) float64 {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v.(float64)
}

func TestWrongTogether(t *testing.T) {
	s := newSite(t, "Hello", nil)
	chat := func(fields string) string { return "{" + hi + "," + fields + "}" }
	for _, c := range []struct {
		path, body string
		status     int
		param      string
	}{
		{"/v1/chat/completions", `{}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":null}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user"}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":null}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":["x"]}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"alien","content":"x"}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x","name":5}]}`, 400, "messages"},
		{"/v1/chat/completions", `{"messages":[{"role":"assistant","content":"x","tool_calls":"y"}]}`, 400, "messages"},
		{"/v1/chat/completions", chat(`"top_logprobs":2`), 400, "top_logprobs"},
		{"/v1/chat/completions", chat(`"stream_options":{"include_usage":true}`), 400, "stream_options"},
		{"/v1/chat/completions", chat(`"max_tokens":1,"max_completion_tokens":2`), 400, "max_completion_tokens"},
		{"/v1/chat/completions", chat(`"id_slot":4`), 400, "id_slot"},
		{"/v1/chat/completions", chat(`"logit_bias":{"100000":1}`), 400, "logit_bias"},
		{"/v1/chat/completions", chat(`"tools":[{"type":"function"}]`), 400, "tools"},
		{"/v1/chat/completions", chat(`"tool_choice":"required"`), 400, "tool_choice"},
		{"/v1/chat/completions", chat(`"continue_final_message":true`), 400, "continue_final_message"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"continue_final_message":true,"add_generation_prompt":true}`, 400, "continue_final_message"},
		{"/v1/chat/completions", chat(`"samplers":["luck"]`), 400, "samplers"},
		{"/v1/completions", `{"prompt":"x","best_of":3}`, 400, "best_of"},
		{"/v1/completions", `{"prompt":"x","echo":true,"logprobs":1,"suffix":"y"}`, 400, "suffix"},
		{"/v1/completions", `{"prompt":["a","b"],"n":100}`, 400, "n"},
		{"/v1/completions", `{"prompt":{"prompt_string":"x","multimodal_data":["aGk="]}}`, 400, "prompt"},
		{"/completion", `{"prompt":"x","mirostat":3}`, 400, "mirostat"},
		{"/completion", `{"prompt":"x","samplers":"kq"}`, 400, "samplers"},
		{"/completion", `{"prompt":"x","samplers":"` + strings.Repeat("k", 33) + `"}`, 400, "samplers"},
		{"/completion", `{"prompt":"x","dry_sequence_breakers":["\n",""]}`, 400, "dry_sequence_breakers"},
		{"/completion", `{"prompt":"x","dry_sequence_breakers":["` + strings.Repeat("-", 41) + `"]}`, 400, "dry_sequence_breakers"},
		{"/completion", `{"prompt":"x","dry_sequence_breakers":["a"` + strings.Repeat(`,"a"`, 64) + `]}`, 400, "dry_sequence_breakers"},
		{"/completion", `{"prompt":"x","lora":[{"id":0,"scale":1}]}`, 400, "lora"},
		{"/detokenize", `{"tokens":[100000]}`, 400, "tokens"},
		{"/tokenize", `{}`, 400, "content"},
		{"/apply-template", `{}`, 400, "messages"},
	} {
		s.refused(c.path, c.body, c.status, c.param)
	}
}

// What asks for nothing is taken, so that clients which send all they know are
// served.
func TestNeutralFields(t *testing.T) {
	s := newSite(t, "Hello", nil)
	post[chatAnswer](s, "/v1/chat/completions", `{`+hi+`,"tools":[],"tool_choice":"none","response_format":{"type":"text"},"grammar":"","json_schema":null,
		"mirostat":0,"mirostat_tau":5.0,"dry_multiplier":0.0,"dry_base":1.75,"dry_allowed_length":2,"dry_penalty_last_n":-1,"xtc_probability":0,"xtc_threshold":0.1,
		"typical_p":1.0,"dynatemp_range":0,"dynatemp_exponent":1,"top_n_sigma":-1,"lora":[],"n_keep":0,"samplers":["dry","penalties","top_k","typ_p","top_p","min_p","xtc","top_n_sigma","temperature"],"post_sampling_probs":false,
		"stop":[],"logit_bias":[],"modalities":["text"],"store":false,"metadata":{},"n_cache_reuse":256,"user":"me","stream":false,"parallel_tool_calls":true}`)
}

func TestWrongJSON(t *testing.T) {
	s := newSite(t, "Hello", nil)
	for _, c := range []struct{ name, body, want string }{
		{"nothing", ``, "empty"},
		{"space", " \n", "empty"},
		{"no JSON", `hello`, "not JSON"},
		{"cut", `{"prompt":"x"`, "ends in the middle"},
		{"array", `[1]`, "an array, want an object"},
		{"more", `{"prompt":"x"} {}`, "goes on after"},
		{"trailing comma", `{"prompt":"x",}`, "not JSON"},
		{"twice", `{"prompt":"x","prompt":"y"}`, `"prompt": given twice`},
		{"twice inside", `{"prompt":"x","stream_options":{"a":1,"a":2}}`, `"a": given twice`},
		{"NaN", `{"prompt":"x","temperature":NaN}`, "not JSON"},
		{"infinity", `{"prompt":"x","temperature":Infinity}`, "not JSON"},
		{"bytes", "{\"prompt\":\"\xff\xfe\"}", "UTF-8"},
		{"half a pair", `{"prompt":"\ud800"}`, "not JSON"},
		{"deep", `{"prompt":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, "nests more than 64"},
		{"deep objects", `{"x":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 101), "nests more than 64"},
		{"control characters", "{\"prompt\":\"\x00\"}", "not JSON"},
	} {
		status, b, _ := s.do("POST", "/completion", c.body)
		e := parse[errorAnswer](t, b).Error
		if status != 400 || e.Type != "invalid_request_error" || !strings.Contains(e.Message, c.want) || len(e.Message) > 200 {
			t.Errorf("%s: got %d %s, want %q", c.name, status, b, c.want)
		}
	}
}

// What the engine says becomes a status, and a stream that has not begun has
// one too.
func TestEngineErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{&engine.BusyError{Queued: 17, RetryAfter: 2500 * time.Millisecond}, 429, "rate_limit_error"},
		{&engine.TooLongError{Prompt: 600, Ctx: 512}, 400, "exceed_context_size_error"},
		{engine.ErrClosing, 503, "unavailable_error"},
		{fmt.Errorf("%w: 9 at once", engine.ErrAdapters), 400, "invalid_request_error"},
		{engine.ErrDeadline, 504, "timeout_error"},
		{fmt.Errorf("secret"), 500, "server_error"},
	} {
		submit := newSite(t, "", func(_ *Config, _ *ask.Model, f *fakeEngine) { f.err = c.err })
		later := newSite(t, "", func(_ *Config, _ *ask.Model, f *fakeEngine) { f.ends = c.err })
		for _, s := range []*site{submit, later} {
			for _, stream := range []string{"false", "true"} {
				status, b, h := s.do("POST", "/v1/chat/completions", "{"+hi+`,"stream":`+stream+"}")
				e := parse[errorAnswer](t, b).Error
				if status != c.status || e.Type != c.kind || strings.Contains(e.Message, "secret") {
					t.Errorf("%v, stream %s: got %d %s", c.err, stream, status, b)
				}
				switch {
				case status == 429 && (h.Get("Retry-After") != "3" || e.Queued != 17 || !strings.Contains(e.Message, "17 requests")):
					t.Errorf("got %s, Retry-After %q", b, h.Get("Retry-After"))
				case e.Type == "exceed_context_size_error" && (e.Prompt != 600 || e.Ctx != 512):
					t.Errorf("got %s", b)
				}
			}
		}
	}
	s := newSite(t, "Hello", nil)
	s.refused("/completion", `{"prompt":"`+strings.Repeat("x", 600)+`"}`, 400, "")

	// Once a stream has begun, an error is its last event, before the mark of the end.
	s = newSite(t, "Hello", func(_ *Config, _ *ask.Model, f *fakeEngine) { f.ends = engine.ErrClosing })
	events := s.events("/v1/chat/completions", "{"+hi+`,"stream":true}`)
	if n := len(events); n < 2 || events[n-1] != "[DONE]" || parse[errorAnswer](t, []byte(events[n-2])).Error.Type != "unavailable_error" {
		t.Errorf("the events are %s", events)
	}
	if !strings.Contains(strings.Join(events, ""), "Hello") {
		t.Errorf("the text before the error is lost: %s", events)
	}
}

func TestTimeoutHeader(t *testing.T) {
	s := newSite(t, "Hello", nil)
	for value, want := range map[string]time.Duration{"30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "250ms": 250 * time.Millisecond, "x": -1, "-1": -1, "0": -1, "NaN": -1, "1e300": 1e9 * time.Second} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/completion", strings.NewReader(`{"prompt":"x","deadline_ms":2000000000}`))
		r.Header.Set("X-Request-Timeout", value)
		s.server.Handler().ServeHTTP(w, r)
		if want < 0 {
			if w.Code != 400 || !strings.Contains(w.Body.String(), "X-Request-Timeout") {
				t.Errorf("%q: got %d %s", value, w.Code, w.Body)
			}
			continue
		}
		want = min(want, 2e6*time.Second)
		if got := time.Until(s.last().Deadline); w.Code != 200 || got > want || got < want-5*time.Second {
			t.Errorf("%q: got %d, a deadline in %v, want %v", value, w.Code, got, want)
		}
	}
}

// A model without tokens for gaps says so.
func TestModelCannot(t *testing.T) {
	s := newSite(t, "", func(_ *Config, m *ask.Model, f *fakeEngine) {
		meta := vocabulary(nil)
		tok, err := tokenizer.New(meta)
		if err != nil {
			t.Fatal(err)
		}
		m.Tokenizer, m.Metadata, f.tok = tok, meta, tok
	})
	s.refused("/infill", `{"input_prefix":"a"}`, 501, "")
	s.refused("/v1/completions", `{"prompt":"a","suffix":"b"}`, 501, "")
	if _, b, _ := s.do("GET", "/props", ""); !json.Valid(b) {
		t.Errorf("got %s", b)
	}
}

// Lists are refused at their bound, before what follows is compared with what came before.
func TestListsAreBounded(t *testing.T) {
	s := newSite(t, "Hello", nil)
	numbered := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ",")
	}
	many := numbered(llamaserver.MaxBranches+1, `"c%d"`) + `,"c0"`
	some := `{"choices":[` + numbered(llamaserver.MaxBranches/2, `"c%d"`) + `]}`
	for _, c := range [][3]string{
		{"/v1/decisions", `{"prompt":"a","choices":[` + many + `]}`, "choices: more than 512"},
		{"/v1/decisions", `{"prompt":"a","questions":[{"choices":[` + many + `]}]}`, "questions: element 0: choices: more than 512"},
		{"/v1/decisions", `{"prompt":"a","questions":[` + some + "," + some + `,{"choices":["a","b"]},5]}`, "questions: element 2: choices: more than 512 in all"},
		{"/completion", `{"prompt":"a","lora":[` + numbered(65, `{"id":%d}`) + `,{"id":0}]}`, "lora: more than 64"},
		{"/lora-adapters", `[` + numbered(65, `{"id":%d}`) + `,{"id":0}]`, "more than 64"},
	} {
		if status, b, _ := s.do("POST", c[0], c[1]); status != 400 || !strings.Contains(string(b), c[2]) {
			t.Errorf("%s: %d %s, want %s", c[0], status, b, c[2])
		}
	}
}

// What others have and this server does not is answered with why.
func TestAbsent(t *testing.T) {
	s := newSite(t, "Hello", nil)
	for _, a := range absent {
		for _, path := range a.paths {
			for _, method := range a.methods {
				status, b, _ := s.do(method, path, "{}")
				if strings.HasPrefix(path, "/api/") { // whose errors are texts
					if text := parse[ollamaError](t, b).Error; status != http.StatusNotImplemented || text != a.why {
						t.Errorf("%s %s: %d %s", method, path, status, b)
					}
					continue
				}
				if e := parse[errorAnswer](t, b).Error; status != http.StatusNotImplemented || e.Type != "not_supported_error" || e.Message != a.why {
					t.Errorf("%s %s: %d %s", method, path, status, b)
				}
			}
		}
	}
}
