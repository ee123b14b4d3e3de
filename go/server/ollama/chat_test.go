package ollama_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/models"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// lines sends a request and returns the lines of JSON that answer it.
func lines(t *testing.T, s *fake.Site, path, body string) []line {
	t.Helper()
	status, b, h := s.Do("POST", path, body)
	if status != 200 || h.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("POST %s %s: status %d, %s: %s", path, body, status, h.Get("Content-Type"), b)
	}
	var all []line
	for text := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		all = append(all, fake.Parse[line](t, []byte(text)))
	}
	return all
}

// A conversation in lines of JSON is the same as in one, with thoughts and calls apart.
func TestOllamaChat(t *testing.T) {
	t.Parallel()
	s := fake.Scripted(t, scripted.Model{Template: fake.ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: []scripted.Script{
			{When: "messages[-1].role == 'tool'", Text: "It is 21 °C in Rome."},
			{When: "tools", Text: "<think>\nThe weather?\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"get_weather\", " +
				"\"arguments\": {\"place\": \"Rome\"}}\n</tool_call>"},
			{Text: "I can't know that."},
		}})
	ask := `"model":"scripted","messages":[{"role":"user","content":"hi"}],"tools":[` + fake.WeatherTool +
		`],"options":{"temperature":0,"num_ctx":8192}`
	check := func(what, content, thinking, arguments string, calls int, last line) {
		t.Helper()
		if content != "One moment." || thinking != "The weather?" || calls != 1 || arguments != `{"place":"Rome"}` {
			t.Errorf("%s: %q, %q, %d calls, %s", what, content, thinking, calls, arguments)
		}
		if !last.Done || last.Reason != "stop" || last.Model != "scripted" || last.Eval == 0 || last.Prompt == 0 ||
			last.Total < last.PromptFor+last.EvalFor || last.PromptFor == 0 {
			t.Errorf("%s: %+v", what, last)
		}
	}
	whole := fake.Post[line](s, "/api/chat", `{`+ask+`,"stream":false}`)
	m := whole.Message
	check("whole", m.Content, m.Thinking, string(m.Calls[0].Function.Arguments), len(m.Calls), whole)
	content, thinking, arguments, calls := "", "", "", 0
	lines := lines(t, s, "/api/chat", `{`+ask+`}`)
	for _, l := range lines {
		content, thinking, calls = content+l.Message.Content, thinking+l.Message.Thinking, calls+len(l.Message.Calls)
		for _, c := range l.Message.Calls {
			arguments += string(c.Function.Arguments)
		}
	}
	check("lines", content, thinking, arguments, calls, lines[len(lines)-1])
	result := `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_weather","arguments":{"place":"Rome"}}}]},
		{"role":"tool","tool_name":"get_weather","content":"21"}],"stream":false,"tools":[` + fake.WeatherTool + `]}`
	if a := fake.Post[line](s, "/api/chat", result); a.Message.Content != "It is 21 °C in Rome." {
		t.Errorf("after a result: %+v", a.Message)
	}
	if a := fake.Post[line](s, "/api/generate",
		`{"prompt":"hi","stream":false,"think":false}`); *a.Response != "I can't know that." {
		t.Errorf("/api/generate: %q", *a.Response)
	}
	if a := fake.Post[line](s, "/api/chat",
		`{"messages":[{"role":"user","content":"hi"}],"stream":false,"options":{"num_predict":2}}`); a.Reason != "length" ||
		a.Eval != 2 {
		t.Errorf("two tokens: %+v", a)
	}
}

// The context of an answer goes on where it ended, and raw prompts are not changed.
func TestOllamaGenerate(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	first := lines(t, s, "/api/generate", `{"prompt":"Once upon a time","raw":true,"options":{"temperature":0,"num_predict":12}}`)
	text := ""
	for _, l := range first {
		text += *l.Response
	}
	type native struct{ Content string }
	want := fake.Post[native](s, "/completion",
		`{"prompt":"Once upon a time","n_predict":12,"temperature":0,"top_p":0.9,"min_p":0}`).Content
	if text != want || first[len(first)-1].Reason != "length" || first[len(first)-1].Context != nil {
		t.Errorf("raw: %q, want %q; %+v", text, want, first[len(first)-1])
	}
	one := fake.Post[line](s, "/api/generate",
		`{"prompt":"Tell me a story.","system":"Be brief.","stream":false,"options":{"temperature":0,"num_predict":8}}`)
	if len(one.Context) != one.Prompt+one.Eval || *one.Response == "" {
		t.Fatalf("a context of %d tokens after %d and %d", len(one.Context), one.Prompt, one.Eval)
	}
	context, _ := json.Marshal(one.Context)
	two := fake.Post[line](s, "/api/generate",
		fmt.Sprintf(`{"prompt":"Go on.","stream":false,"context":%s,"options":{"temperature":0,"num_predict":4}}`, context))
	if two.Prompt <= len(one.Context) || fmt.Sprint(two.Context[:len(one.Context)]) != fmt.Sprint(one.Context) {
		t.Errorf("a prompt of %d tokens, want more than %d, which it begins with", two.Prompt, len(one.Context))
	}
	for _, path := range []string{"/api/generate", "/api/chat"} {
		if a := fake.Post[line](s, path, `{"model":"demo:latest","keep_alive":"5m"}`); !a.Done || a.Reason != "load" ||
			a.Model != "demo:latest" {
			t.Errorf("%s without a prompt: %+v", path, a)
		}
	}
}

// An answer is held to a form: any object, or what a schema says.
func TestOllamaFormat(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	ask := `"prompt":"A name and an age:","stream":false,"options":{"num_predict":60,"seed":1}`
	one := fake.Post[line](s, "/api/generate",
		`{`+ask+`,"format":{"type":"object","properties":{"age":{"type":"integer","minimum":1,"maximum":9}},"required":["age"],"additionalProperties":false}}`)
	var v struct{ Age int }
	if err := json.Unmarshal([]byte(*one.Response), &v); err != nil || v.Age < 1 || v.Age > 9 {
		t.Errorf("by a schema: %q, %v", *one.Response, err)
	}
	if a := fake.Post[line](s, "/api/generate",
		`{`+ask+`,"format":"json"}`); !strings.HasPrefix(strings.TrimSpace(*a.Response), "{") {
		t.Errorf("json: %q", *a.Response)
	}
}

// Log-probabilities are those of OpenAI's endpoint, whole and in lines: each token is in one line.
func TestOllamaLogprobs(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	type one struct {
		Token   string
		Logprob float64
		Top     []struct{ Token string } `json:"top_logprobs"`
	}
	type line struct {
		Response string
		Message  struct{ Content string }
		Logprobs []one
	}
	for path, body := range map[string]string{"/api/generate": `"prompt":"Tell me a story."`,
		"/api/chat": `"messages":[{"role":"user","content":"Tell me a story."}]`} {
		body += `,"logprobs":true,"top_logprobs":2,"options":{"temperature":0,"num_predict":9}`
		whole := fake.Post[line](s, path, `{`+body+`,"stream":false}`)
		var streamed []one
		_, b, _ := s.Do("POST", path, `{`+body+`}`)
		for l := range strings.Lines(string(b)) {
			streamed = append(streamed, fake.Parse[line](t, []byte(l)).Logprobs...)
		}
		text := ""
		for _, l := range whole.Logprobs {
			text += l.Token
			if len(l.Top) != 2 || l.Top[0].Token != l.Token || l.Logprob > 0 {
				t.Errorf("%s: %+v", path, l)
			}
		}
		if len(whole.Logprobs) != 9 || fmt.Sprint(streamed) != fmt.Sprint(whole.Logprobs) ||
			strings.TrimSpace(text) != strings.TrimSpace(whole.Response+whole.Message.Content) {
			t.Errorf("%s: of %q:\n%+v\nin lines:\n%+v", path, whole.Response+whole.Message.Content, whole.Logprobs, streamed)
		}
		if plain := fake.Post[line](s, path, `{`+strings.Replace(body, `"logprobs":true,"top_logprobs":2,`, "", 1)+
			`,"stream":false}`); plain.Logprobs != nil {
			t.Errorf("%s: %+v without being asked", path, plain.Logprobs)
		}
		if status, b, _ := s.Do("POST", path, `{`+strings.Replace(body, `"logprobs":true,`, "", 1)+`}`); status != 400 ||
			!strings.Contains(string(b), "top_logprobs") {
			t.Errorf("%s: top_logprobs alone: %d %s", path, status, b)
		}
	}
}

func TestOllamaModels(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, nil)
	for _, path := range []string{"/api/tags", "/api/ps"} {
		_, b, _ := s.Do("GET", path, "")
		if l := fake.Parse[modelList](t, b).Models; len(l) != 1 || l[0].Name != "demo:latest" || len(l[0].Digest) != 64 {
			t.Errorf("%s: %s", path, b)
		}
	}
	a := fake.Post[shownModel](s, "/api/show", `{"model":"demo:latest"}`)
	if a.Info["llama.context_length"] != 1024.0 || len(a.Capabilities) < 2 || a.Capabilities[0] != "completion" ||
		a.Template == "" {
		t.Errorf("/api/show: %+v", a)
	}
	e := fake.Post[vectors](s, "/api/embed", `{"model":"demo","input":["a cat","a dog"]}`)
	if len(e.Embeddings) != 2 || len(e.Embeddings[0]) != 256 || e.Prompt == 0 || e.Model != "demo" {
		t.Errorf("/api/embed: %d vectors, %+v", len(e.Embeddings), e.Prompt)
	}
	old := fake.Post[vector](s, "/api/embeddings", `{"model":"demo","prompt":"a cat"}`).Embedding
	engine.Normalize(old, engine.Euclidean)
	if fmt.Sprint(old) != fmt.Sprint(e.Embeddings[0]) {
		t.Error("/api/embeddings has another vector")
	}
	_, b, _ := s.Do("GET", "/api/version", "")
	if v := fake.Parse[version](t, b); v.Version == "" || v.Quern != "test" {
		t.Errorf("/api/version: %s", b)
	}
}

// Errors are a string, which names the field.
func TestOllamaRefuses(t *testing.T) {
	t.Parallel()
	s := fake.Embedder(t, func(m *ask.Model) { m.Pooling = nn.PoolLast })
	chat := `"messages":[{"role":"user","content":"hi"}]`
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/api/chat", `{"messages":[{"content":"hi"}]}`, 400, "messages: message 0: role: missing"},
		{"/api/chat", `{"messages":"hi"}`, 400, "messages: "},
		{"/api/chat", `{"messages":[{"role":"user","content":"hi","images":["aGk="]}]}`, 400,
			"the model demo reads text only, and the request has a picture or a sound: want a model that sees or hears, or this one started with --mmproj FILE"},
		{"/api/chat", `{"messages":[{"role":"user","content":"hi","images":[""]}]}`, 400, "images: element 0: empty, want a file in base64"},
		{"/api/chat", `{` + chat + `,"options":{"temperature":"hot"}}`, 400, "options: temperature: "},
		{"/api/chat", `{` + chat + `,"options":[]}`, 400, "options: an array, want an object"},
		{"/api/chat", `{` + chat + `,"think":"much"}`, 400, "think: "},
		{"/api/chat", `{` + chat + `,"keep_alive":"soon"}`, 400, "keep_alive: "},
		{"/api/chat", `{` + chat + `,"format":"yaml"}`, 400, "format: "},
		{"/api/generate", `{"prompt":"a","images":["aGk="]}`, 400, "reads text only"},
		{"/api/generate", `{"prompt":"a","template":"{{ .Prompt }}"}`, 400, "template: "},
		{"/api/generate", `{"prompt":"a","context":[99999999]}`, 400, "context: element 0"},
		{"/api/generate", `{"prompt":"a","suffix":"b"}`, 501, "cannot fill in"},
		{"/api/generate", `{"prompt":"` + strings.Repeat("a dog and ", 2000) + `"}`, 400, "exceeds the available context"},
		{"/api/generate", `{"prompt":"a","raw":true,"images":["aGk="]}`, 400, "reads text only"},
		{"/api/generate", `{"prompt":"a","images":{}}`, 400, "images: an object, want an array of files in base64"},
		{"/api/generate", `{"prompt":"a","context":[-1]}`, 400, "context: "},
		{"/api/chat", `{` + chat + `,"options":{"num_predict":-3}}`, 400, "options: num_predict: -3, want an integer from -2 to 2147483647"},
		{"/api/chat", `{` + chat + `,"options":{"top_p":1.5}}`, 400, "options: top_p: 1.5, want a number from 0 to 1"},
		{"/api/chat", `{` + chat + `,"top_logprobs":21}`, 400, "top_logprobs: 21, want an integer from 0 to 20"},
		{"/api/chat", `{"messages":[{"role":"user","tool_calls":5}]}`, 400, "messages: message 0: tool_calls: "},
		{"/api/embed", `{}`, 400, "input: missing"},
		{"/api/embeddings", `{}`, 400, "prompt: missing"},
		{"/api/show", `{"model":"other"}`, 404, `model 'other' not found, want one of demo`},
		{"/api/pull", `{"model":"other"}`, 501, "downloads no models"},
		{"/api/push", `{"model":"other"}`, 501, "not uploaded"},
		{"/api/create", `{"model":"mario","from":"demo","system":"You are Mario.","parameters":{"temperature":1}}`, 501,
			"send system or messages, and options, with each request"},
	} {
		status, body, _ := s.Do("POST", tt.path, tt.body)
		var e struct{ Error string }
		if err := json.Unmarshal(body, &e); err != nil || status != tt.status || !strings.Contains(e.Error, tt.want) {
			t.Errorf("%s %.60s: %d %s, want %d %s", tt.path, tt.body, status, body, tt.status, tt.want)
		}
	}
}

// A name that no model has gets the same answer everywhere, also where OpenAI's paths take any.
func TestOllamaUnknownModel(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Library: &fake.Shelf{GoOn: make(chan struct{})}}})
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/api/chat", `{"model":"llama9","messages":[{"role":"user","content":"hi"}]}`},
		{"POST", "/api/chat", `{"model":"llama9","messages":[{"role":"user","content":"hi"}],"stream":false}`},
		{"POST", "/api/chat", `{"model":"llama9"}`},
		{"POST", "/api/chat", `{"model":"llama9","keep_alive":0}`},
		{"POST", "/api/generate", `{"model":"llama9","prompt":"hi"}`},
		{"POST", "/api/generate", `{"name":"llama9","prompt":"hi"}`},
		{"POST", "/api/embed", `{"model":"llama9","input":"hi"}`},
		{"POST", "/api/embeddings", `{"model":"llama9","prompt":"hi"}`},
		{"POST", "/api/show", `{"model":"llama9"}`},
		{"DELETE", "/api/delete", `{"model":"llama9"}`},
	} {
		status, b, _ := s.Do(tt.method, tt.path, tt.body)
		var a struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(b, &a); err != nil || status != 404 ||
			a.Error != "model 'llama9' not found, want one of demo" {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, status, b)
		}
	}
	for _, name := range []string{"demo", "demo:latest", ""} {
		if a := fake.Post[line](s, "/api/generate",
			`{"model":"`+name+`","prompt":"hi","stream":false,"options":{"num_predict":2}}`); !a.Done {
			t.Errorf("%q: %+v", name, a)
		}
	}
	fake.Post[struct{}](s, "/v1/completions", `{"model":"llama9","prompt":"hi","max_tokens":1}`)
}

// An error is a string on all of Ollama's paths, whatever found it.
func TestOllamaErrorsAreStrings(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	for _, r := range [][2]string{{"GET", "/api/chat"}, {"POST", "/api/none"}, {"POST", "/api/chat"},
		{"DELETE", "/api/tags"}} {
		status, b, _ := s.Do(r[0], r[1], `{`)
		var a struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(b, &a); err != nil || a.Error == "" || status < 400 {
			t.Errorf("%s %s: %d %s", r[0], r[1], status, b)
		}
	}
}

// Ollama's keep_alive says how long the model stays; /api/ps when it goes.
func TestOllamaKeepAlive(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, nil)
	close(b)
	state := func() models.State { st, _ := s.Server.Models().Status("a"); return st.State }
	for keep, want := range map[string]models.State{`0`: models.Unloaded, `"0s"`: models.Unloaded, `-1`: models.Loaded,
		`"10m"`: models.Loaded, `null`: models.Loaded} {
		status, text, _ := s.Do("POST", "/api/generate", `{"model":"a","keep_alive":`+keep+`}`)
		if status != 200 || strings.Contains(string(text), `"unload"`) != (want == models.Unloaded) {
			t.Errorf("%s: %d %s", keep, status, text)
		}
		fake.Eventually(t, keep, func() bool { return state() == want })
		if want == models.Unloaded {
			continue
		}
		_, text, _ = s.Do("GET", "/api/ps", "")
		list := fake.Parse[modelList](t, text)
		if len(list.Models) != 1 || (list.Models[0].Expires[:4] == "9999") == (keep == `"10m"`) {
			t.Errorf("%s: %s", keep, text)
		}
	}
	for _, keep := range []string{`"x"`, `{}`, `"5 minutes"`, `true`, `"NaN"`} {
		if status, text, _ := s.Do("POST", "/api/generate", `{"model":"a","keep_alive":`+keep+`}`); status != 400 {
			t.Errorf("%s: %d %s", keep, status, text)
		}
	}
	if status, text, _ := s.Do("POST", "/api/generate", `{"model":"a","keep_alive":1e300}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// A model that is only to be unloaded is not loaded for that.
func TestOllamaStop(t *testing.T) {
	t.Parallel()
	s, _ := fake.NewRouter(t, nil)
	events, stop := s.Server.Models().Watch()
	for path, body := range map[string]string{
		"/api/generate": `{"model":"a","keep_alive":0}`, "/api/chat": `{"model":"a:latest","messages":[],"keep_alive":"0s"}`,
	} {
		if a := fake.Post[line](s, path, body); !a.Done || a.Reason != "unload" ||
			!strings.HasPrefix(body, `{"model":"`+a.Model+`"`) || (a.Message == nil) != (path == "/api/generate") {
			t.Errorf("%s: %+v", path, a)
		}
	}
	if status, text, _ := s.Do("POST", "/api/generate", `{"model":"none","keep_alive":0}`); status != 404 {
		t.Errorf("one that there is not: %d %s", status, text)
	}
	stop()
	for e := range events {
		t.Errorf("%+v", e)
	}
	if a := fake.Post[line](s, "/api/generate",
		`{"model":"a","prompt":"x","stream":false,"keep_alive":0}`); a.Response == nil || *a.Response == "" {
		t.Errorf("with a prompt: %+v", a)
	}
	for shift, no := range map[string]bool{"": false, `,"shift":true`: false, `,"shift":false`: true} {
		fake.Post[line](s, "/api/generate", `{"model":"a","prompt":"x","stream":false`+shift+`}`)
		if s.Last().NoShift != no {
			t.Errorf("%s: no shift %v", shift, !no)
		}
	}
}

// The older form of a name says which model is shown, and only that is loaded.
func TestOllamaShowByOlderName(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Models.Most = 1 })
	close(b)
	status, text, _ := s.Do("POST", "/api/show", `{"name":"b:latest"}`)
	if status != 200 || !strings.Contains(string(text), "FROM b") {
		t.Errorf("%d %s", status, text)
	}
	if st, _ := s.Server.Models().Status("a"); st.State != models.Unloaded {
		t.Errorf("a is %s", st.State)
	}
}

// Settings that a request leaves out are Ollama's own, and those that it has are what the engine gets.
func TestOllamaSettings(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	chat := `"messages":[{"role":"user","content":"hi","images":null,"tool_calls":null},{"role":"assistant","content":"so","images":[ ]},{"role":"user","content":"hi"}],"stream":false`
	fake.Post[struct{}](s, "/api/chat", `{`+chat+`}`)
	r := s.Last()
	if p := r.Sampling; r.MaxTokens != -1 || p.Temp != 0.8 || p.TopK != 40 || p.TopP != 0.9 || p.MinP != 0 || p.RepeatPenalty != 1 || p.RepeatLastN != 64 {
		t.Errorf("by default %+v", r.Params)
	}
	for options, want := range map[string]int{`"num_predict":-2`: -1, `"num_predict":-1`: -1, `"num_predict":0`: 0, `"num_predict":7`: 7} {
		fake.Post[struct{}](s, "/api/chat", `{`+chat+`,"options":{`+options+`,"num_ctx":9,"seed":3}}`)
		if r := s.Last(); r.MaxTokens != want || r.Sampling.Seed != 3 {
			t.Errorf("%s: %+v", options, r.Params)
		}
	}
	// A prompt is the user's message in the template, below the system prompt; raw it is itself.
	fake.Post[struct{}](s, "/api/generate", `{"prompt":"hi","system":"be brief","stream":false}`)
	if got := s.LastPrompt(); !strings.Contains(got, "system\nbe brief") || !strings.Contains(got, "user\nhi") || !strings.HasSuffix(got, "assistant\n") {
		t.Errorf("the prompt is %q", got)
	}
	fake.Post[struct{}](s, "/api/generate", `{"prompt":"hi","system":"be brief","raw":true,"stream":false}`)
	if got := s.LastPrompt(); strings.Contains(got, "brief") || !strings.HasSuffix(got, "hi") {
		t.Errorf("the raw prompt is %q", got)
	}
}

// A name may have the tag latest, which means the model without one; that of no model stays as it was sent.
func TestOllamaTags(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Names: []string{"one", "two:latest"}})
	for name, status := range map[string]int{"one": 200, "one:latest": 200, "two:latest": 200, "two": 404, "three:latest": 404, "one:other": 404} {
		if got, b, _ := s.Do("POST", "/api/show", `{"model":"`+name+`"}`); got != status {
			t.Errorf("%s: %d %s", name, got, b)
		} else if status == 404 && !strings.Contains(string(b), "model '"+name+"' not found") {
			t.Errorf("%s: %s", name, b)
		}
	}
	_, b, _ := s.Do("GET", "/api/ps", "")
	if list := fake.Parse[modelList](t, b).Models; len(list) != 2 || list[0].Name != "one:latest" || list[1].Name != "two:latest" {
		t.Errorf("%+v", list)
	}
	for _, m := range fake.Parse[modelList](t, b).Models {
		if m.Expires != "9999-01-01T00:00:00Z" {
			t.Errorf("%s stays until %s", m.Name, m.Expires)
		}
	}
}
