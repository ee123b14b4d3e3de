package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// newPair returns a server of two models, the fakes of "a" and "b", which answer
// with their names and more. The second is loading until it is told not to.
func newPair(t *testing.T) (s *fake.Site, b func()) {
	t.Helper()
	var second ask.Model
	s = fake.New(t, "Hello", func(c *server.Config, m *ask.Model, f *fake.Engine) {
		m.Name, m.Aliases = "a", []string{"first"}
		second = *m
		second.Engine = &fake.Engine{Tok: f.Tok, Reply: "o world"}
		second.Sampling.TopK, second.Ctx = 3, 99
		c.SlotPath = t.TempDir()
	})
	loaded := fake.Starting(t, s.Server, "b")
	return s, func() { loaded(second) }
}

// A request is for the model that its body names, or its query; one that names none
// is for the first.
func TestSeveralModels(t *testing.T) {
	t.Parallel()
	s, load := newPair(t)
	if status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"b"}`); status != 503 ||
		!strings.Contains(string(b), "Loading model") {
		t.Errorf("while it is loading: %d %s", status, b)
	}
	if status, _, _ := s.Do("GET", "/health", ""); status != 503 {
		t.Errorf("health is %d while a model is loading", status)
	}
	fake.Post[fake.TextAnswer](s, "/v1/completions", `{"prompt":"x","model":"a"}`) // answers meanwhile
	load()
	if status, _, _ := s.Do("GET", "/health", ""); status != 200 {
		t.Errorf("health is %d", status)
	}
	for body, want := range map[string]string{
		`{"prompt":"x"}`:                                          "a Hello",
		`{"prompt":"x","model":null}`:                             "a Hello",
		`{"prompt":"x","model":""}`:                               "a Hello",
		`{"prompt":"x","model":"first"}`:                          "a Hello",
		`{"prompt":"x","model":"b"}`:                              "b o world",
		`{"extra":{"model":"a"},"model":"b","n":1}`:               "", // no prompt
		`{"extra":{"model":"a"},"prompt":["x"],"model":"\u0062"}`: "b o world",
	} {
		status, b, _ := s.Do("POST", "/v1/completions", body)
		if want == "" {
			if status != 400 {
				t.Errorf("%s: %d %s", body, status, b)
			}
			continue
		}
		a := fake.Parse[fake.TextAnswer](t, b)
		if status != 200 || a.Model+" "+a.Choices[0].Text != want {
			t.Errorf("%s: %d %s, want %s", body, status, b, want)
		}
	}
	if a := fake.Post[fake.TextAnswer](s, "/v1/completions?model=b", `{"prompt":"x"}`); a.Model != "b" {
		t.Errorf("a query names b, and %s answers", a.Model)
	}
	// What depends on the model's defaults is that of the one which is named.
	for path, want := range map[string]float64{"/props": 40, "/props?model=first": 40, "/props?model=b": 3} {
		_, b, _ := s.Do("GET", path, "")
		p := fake.Parse[struct {
			Alias    string `json:"model_alias"`
			Defaults struct {
				Model  string         `json:"model"`
				Params map[string]any `json:"params"`
			} `json:"default_generation_settings"`
		}](t, b)
		if got := p.Defaults.Params["top_k"]; got != want || p.Defaults.Model != p.Alias {
			t.Errorf("%s: top_k %v, want %v; %s", path, got, want, p.Alias)
		}
	}
	_, b, _ := s.Do("GET", "/slots?model=b", "")
	if list := fake.Parse[[]struct {
		Model string `json:"model"`
		Ctx   int    `json:"n_ctx"`
	}](t, b); list[0].Model != "b" || list[0].Ctx != 99 {
		t.Errorf("slots of b: %s", b)
	}
	for path, body := range map[string]string{
		"/tokenize": `{"content":"x","model":"b"}`, "/slots/1?model=b&action=erase": "",
		"/slots/1?action=save&model=b": `{"filename":"x"}`,
	} {
		if status, b, _ := s.Do("POST", path, body); status != 200 {
			t.Errorf("%s %s: %d %s", path, body, status, b)
		}
	}
	_, b, _ = s.Do("GET", "/v1/models", "")
	if list := fake.Parse[fake.ModelList](t, b); len(list.Data) != 2 || list.Data[0].ID != "a" || list.Data[1].ID != "b" ||
		len(list.Models) != 2 {
		t.Errorf("models %s", b)
	}
	for path, want := range map[string]int{"/v1/models/b": 200, "/v1/models/first": 200, "/v1/models/c": 404} {
		if status, b, _ := s.Do("GET", path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
}

// A model that there is not is refused in the form that the endpoint's clients know.
func TestUnknownModel(t *testing.T) {
	t.Parallel()
	s, load := newPair(t)
	load()
	for _, tt := range []struct{ method, path, body, code, kind string }{
		{"POST", "/v1/chat/completions", `{"messages":[],"model":"gpt-4"}`, `"code":"model_not_found"`,
			`"type":"invalid_request_error"`},
		{"POST", "/v1/completions", `{"model":"gpt-4"}`, `"code":"model_not_found"`, `"type":"invalid_request_error"`},
		{"POST", "/completion", `{"model":"gpt-4"}`, `"code":404`, `"type":"not_found_error"`},
		{"GET", "/props?model=gpt-4", "", `"code":404`, `"type":"not_found_error"`},
	} {
		status, b, _ := s.Do(tt.method, tt.path, tt.body)
		if status != 404 || !strings.Contains(string(b), tt.code) || !strings.Contains(string(b), tt.kind) ||
			!strings.Contains(string(b), `gpt-4\", want one of a, b`) || !strings.Contains(string(b), `"param":"model"`) {
			t.Errorf("%s: %d %s", tt.path, status, b)
		}
	}
	if err := s.Server.Add(catalog.Source{Spec: models.Spec[ask.Model]{Names: []string{"b"}}}); err == nil {
		t.Error("a name was given twice")
	}
}

// Leases end with their requests.
func TestLeases(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", func(_ *server.Config, _ *ask.Model,
		f *fake.Engine) {
		f.Delay = 5 * time.Millisecond
	})
	fake.Starting(t, s.Server, "b")(*s.Model())
	leases := func() int {
		st, _ := s.Server.Models().Status("b")
		return st.Leases
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Events("/v1/completions", `{"prompt":"x","model":"b","stream":true,"max_tokens":40,"ignore_eos":true}`)
	}()
	fake.Eventually(t, "leased", func() bool { return leases() == 1 })
	<-done
	s.Do("POST", "/v1/completions", `{"model":"b"}`)
	s.Do("POST", "/v1/completions", `{"model":"b","prompt":`)
	fake.Eventually(t, "released", func() bool { return leases() == 0 })
}

// Two models that share the machine write what each writes alone, whatever runs
// beside them and leaves early.
func TestModelsShareTheMachine(t *testing.T) {
	t.Parallel()
	type completion struct{ Choices []struct{ Text string } }
	prompts := []string{"Once upon a time, there was a", "There", "The dog and the cat went to", "Lily"}
	body := func(model, prompt string, seed int, more string) string {
		return fmt.Sprintf(`{"model":%q,"prompt":%q,"seed":%d,"max_tokens":24,"temperature":1%s}`, model, prompt, seed, more)
	}
	alone := fake.Demo(t, fake.Setup{})
	want := map[string]string{}
	for i, p := range prompts {
		want[p] = fake.Post[completion](alone, "/v1/completions", body("demo", p, i, "")).Choices[0].Text
	}
	s := fake.Demo(t, fake.Setup{Names: []string{"a", "b"}})
	var wg sync.WaitGroup
	for round := range 3 {
		for i, p := range prompts {
			for _, model := range []string{"a", "b"} {
				wg.Go(func() {
					if got := fake.Post[completion](s, "/v1/completions", body(model, p, i, "")).Choices[0].Text; got != want[p] {
						t.Errorf("%s, %q: %q, alone %q", model, p, got, want[p])
					}
				})
				wg.Go(func() {
					var text strings.Builder
					for _, e := range s.Events("/v1/completions", body(model, p, i, `,"stream":true`)) {
						if e != "[DONE]" {
							text.WriteString(fake.Parse[completion](t, []byte(e)).Choices[0].Text)
						}
					}
					if text.String() != want[p] {
						t.Errorf("%s, %q as a stream: %q, alone %q", model, p, text.String(), want[p])
					}
				})
				wg.Go(func() { leave(t, s, body(model, p, i, `,"stream":true`), round+i) })
			}
		}
	}
	wg.Wait()
	for _, m := range s.Server.Models().Loaded() {
		fake.Eventually(t, "idle", func() bool {
			st := m.Engine.Status()
			return st.Queued == 0 && st.KV.Used == 0
		})
	}
}

// leave begins a stream and hangs up after some lines.
func leave(t *testing.T, s *fake.Site, body string, lines int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); lines > 0 && in.Scan(); lines-- {
	}
}
