package llamaserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// What is not loaded is listed with its status, and loaded by the request that names it.
func TestRouter(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, nil)
	statuses := func(want string) {
		t.Helper()
		_, text, _ := s.Do("GET", "/models", "")
		var got []string
		for _, e := range fake.Parse[fake.ModelList](t, text).Data {
			one := e.ID + " " + e.Status.Value
			if e.Status.Failed {
				one += " failed"
			}
			if (e.Meta == nil) != (e.Status.Value == "unloaded") || e.Path == "" || len(e.Aliases) != 1 ||
				e.Status.Args[1] != "512" {
				t.Errorf("%+v", e)
			}
			got = append(got, one)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("models %q, want %s", got, want)
		}
	}
	statuses("a unloaded, b unloaded, huge unloaded")
	events := s.Lines("GET", "/models/sse", "")
	if first := <-events; first != ": ping" {
		t.Errorf("the events begin with %q", first)
	}
	if a := fake.Post[fake.TextAnswer](s, "/v1/completions", `{"prompt":"x","model":"also-a"}`); a.Model != "a" ||
		a.Choices[0].Text != " Hello" && a.Choices[0].Text != "Hello" {
		t.Errorf("%+v", a)
	}
	statuses("a loaded, b unloaded, huge unloaded")
	if status, text, head := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"huge"}`); status != 503 ||
		head.Get("Retry-After") != "5" || !strings.Contains(string(text), "no memory for the model: want 9.7 GB") {
		t.Errorf("one that does not fit: %d %s", status, text)
	}
	statuses("a loaded, b unloaded, huge unloaded failed")
	if b := s.Get("/models/huge"); !strings.Contains(string(b), `"failed":true,"exit_code":1,"reason":"no memory for the model`) {
		t.Errorf("one that failed: %s", b)
	}
	for body, want := range map[string]int{`{"model":"b"}`: 200, `{"model":"x"}`: 404, `{}`: 400, ``: 400,
		`{"model":7}`: 400, `{"model":"../a"}`: 404} {
		if status, text, _ := s.Do("POST", "/models/load", body); status != want {
			t.Errorf("loading %s: %d %s", body, status, text)
		}
	}
	fake.Eventually(t, "loading", func() bool { st, _ := s.Server.Models().Status("b"); return st.Part > 0 })
	if b := s.Get("/models/b"); !strings.Contains(string(b), `"status":{"value":"loading","args":["--ctx-size","512"],"progress":0.5}`) {
		t.Errorf("half of it is loaded: %s", b)
	}
	if b := s.Get("/models/a"); strings.Contains(string(b), "progress") {
		t.Errorf("one that is loaded: %s", b)
	}
	if status, text, _ := s.Do("POST", "/models/unload", `{"model":"b"}`); status != 200 {
		t.Errorf("unloading one that is being loaded: %d %s", status, text)
	}
	fake.Eventually(t, "unloaded", func() bool {
		st,
			_ := s.Server.Models().Status("b")
		return st.State == models.Unloaded
	})
	if status, text, _ := s.Do("POST", "/models/load", `{"model":"b"}`); status != 200 {
		t.Errorf("loading it again: %d %s", status, text)
	}
	close(b)
	fake.Eventually(t, "loaded", func() bool { st, _ := s.Server.Models().Status("b"); return st.State == models.Loaded })
	for body, want := range map[string]int{`{"model":"a"}`: 200, `{"model":"huge"}`: 400, `{"model":"x"}`: 404} {
		if status, text, _ := s.Do("POST", "/models/unload", body); status != want {
			t.Errorf("unloading %s: %d %s", body, status, text)
		}
	}
	fake.Eventually(t, "unloaded", func() bool {
		st,
			_ := s.Server.Models().Status("a")
		return st.State == models.Unloaded
	})
	var got []string
	for range 11 {
		var e struct {
			Model, Event string
			Data         *struct {
				Status   string          `json:"status"`
				Progress json.RawMessage `json:"progress"`
				Info     *struct {
					ID string `json:"id"`
				} `json:"info"`
				Failed bool `json:"failed"`
			}
		}
		var line string
		select {
		case line = <-events:
		case <-time.After(time.Minute):
			t.Fatalf("no event after %s", strings.Join(got, ", "))
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &e); err != nil || e.Data == nil ||
			e.Event != "model_status" {
			t.Fatal(e, err)
		}
		one := e.Model + " " + e.Data.Status
		if e.Data.Progress != nil {
			one += " half"
		}
		if e.Data.Failed {
			one += " failed"
		}
		if e.Data.Info != nil {
			one += " " + e.Data.Info.ID
		}
		got = append(got, one)
	}
	if text := strings.Join(got, ", "); text != "a loading, a loaded a, huge loading, huge unloaded failed, b loading, "+
		"b loading half, b unloaded, b loading, b loading half, b loaded b, a unloaded" {
		t.Errorf("events %s", text)
	}
}

// What GET /models shows to anybody has no paths and no flags, and reads nothing again; what is wrong with the models'
// file is the client's to know.
func TestModelsToAnybody(t *testing.T) {
	t.Parallel()
	scans := 0
	s, _ := fake.NewRouter(t, func(c *server.Config) {
		c.Known = func(c *gin.Context) bool { return c.GetHeader("X-Api-Key") != "" }
		c.Rescan = func() error { scans++; return errors.New("line 3: no such flag") }
	})
	if status, text, _ := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"huge"}`); status != 503 {
		t.Errorf("%d %s", status, text)
	}
	for _, path := range []string{"/models", "/v1/models"} {
		_, text, _ := s.Do("GET", path, "")
		list := fake.Parse[fake.ModelList](t, text)
		if len(list.Data) != 3 || list.Data[2].ID != "huge" || !list.Data[2].Status.Failed ||
			strings.Contains(string(text), ".gguf") ||
			strings.Contains(string(text), "--ctx-size") || strings.Contains(string(text), "9.7 GB") {
			t.Errorf("%s: %s", path, text)
		}
		if status, text, _ := s.Do("GET", path+"?reload=1", ""); status != 401 || scans != 0 {
			t.Errorf("%s: %d %s, %d scans", path, status, text, scans)
		}
	}
	for path, want := range map[string]string{"/models": `"path":"a.gguf"`, "/models?reload=1": "line 3: no such flag"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "x")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || (resp.StatusCode == 400) != (path != "/models") || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s %v", path, resp.StatusCode, text, err)
		}
	}
}

// The events go on while nothing happens, and say why a download failed. A model whose loading says nothing yet has no
// progress, and one that a request waits for is not unloaded.
func TestEventsOfModels(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Ping, c.Library = time.Millisecond, &fake.Shelf{} })
	events := s.Lines("GET", "/models/sse", "")
	for range 3 {
		if line := <-events; line != ": ping" {
			t.Errorf("while nothing happens: %q", line)
		}
	}
	next := func() string {
		for line := range events {
			if line != ": ping" {
				return line
			}
		}
		return "the end"
	}
	for body, want := range map[string]string{`{}`: "model: missing", `{"model":7}`: "model: 7, want", `{"model":"a b"}`: "model: "} {
		if status, text, _ := s.Do("POST", "/models", body); status != 400 || !strings.HasPrefix(fake.ErrorOf(t, text).Message, want) {
			t.Errorf("a download of %s: %d %s", body, status, text)
		}
	}
	fake.Post[struct{}](s, "/models", `{"model":"org/hostile"}`)
	const model = `data: {"model":"org/hostile",`
	if line := next(); line != model+`"event":"model_status","data":{"status":"downloading"}}` {
		t.Error(line)
	}
	if line := next(); !strings.HasPrefix(line,
		model+`"event":"download_failed","data":{"status":"unloaded","failed":true,"exit_code":1,"reason":"`) {
		t.Error(line)
	}
	done := make(chan int, 1)
	go func() {
		status, _, _ := s.Do("POST", "/v1/completions", `{"model":"b","prompt":"x"}`)
		done <- status
	}()
	fake.Eventually(t, "waiting", func() bool { st, _ := s.Server.Models().Status("b"); return st.Waiting == 1 })
	if status, text, _ := s.Do("POST", "/models/unload", `{"model":"b"}`); status != 400 ||
		!strings.Contains(string(text), `the model \"b\" is being loaded, want one that is loaded`) {
		t.Errorf("unloading one that a request waits for: %d %s", status, text)
	}
	close(b)
	if status := <-done; status != 200 {
		t.Errorf("the request that waited: %d", status)
	}
	silent := catalog.Source{}
	silent.Names = []string{"silent"}
	begun, goOn := make(chan struct{}), make(chan struct{})
	silent.Load = func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
		close(begun)
		<-goOn
		return nil, errors.New("it is broken")
	}
	if err := s.Server.Add(silent); err != nil {
		t.Fatal(err)
	}
	fake.Post[struct{}](s, "/models/load", `{"model":"silent"}`)
	<-begun
	if b := s.Get("/models/silent"); !strings.Contains(string(b), `"status":{"value":"loading"}`) {
		t.Errorf("%s", b)
	}
	close(goOn)
	if status, text, _ := s.Do("GET", "/models/none", ""); status != 404 {
		t.Errorf("one that there is not: %d %s", status, text)
	}
}

// Clients of Anthropic's get one model in their form too.
func TestOneModelOfAnthropic(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, nil)
	close(b)
	fake.Post[struct{}](s, "/v1/completions", `{"model":"a","prompt":"x"}`)
	for id, tokens := range map[string]any{"a": 512.0, "b": nil} {
		r, _ := http.NewRequest("GET", s.URL+"/v1/models/"+id, nil)
		r.Header.Set("anthropic-version", "2023-06-01")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil || m["type"] != "model" || m["id"] != id ||
			m["display_name"] != id || m["lifecycle"] != "active" || m["max_tokens"] != tokens {
			t.Errorf("%s: %v, %v", id, m, err)
		}
		resp.Body.Close()
	}
}

// A model that sleeps says so.
func TestPropsOfASleeper(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Models.Sleep = 20 * time.Millisecond })
	close(b)
	fake.Post[struct{}](s, "/v1/completions", `{"model":"a","prompt":"x"}`)
	fake.Eventually(t, "asleep", func() bool {
		return fake.Parse[struct {
			Sleeping bool `json:"is_sleeping"`
		}](t, s.Get("/props?model=a")).Sleeping
	})
}

// Without a model to describe, the server describes itself.
func TestPropsOfARouter(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Models.Most, c.Tools = 2, fake.Weather{} })
	close(b)
	want := map[string]any{"role": "router", "max_instances": 2.0, "models_autoload": true, "ui": false, "endpoint_metrics": false,
		"endpoint_mcp": true, "build_info": "b10573-test"}
	pair := fake.Demo(t, fake.Setup{Names: []string{"one", "two"}})
	if got := fake.Parse[props](t, pair.Get("/props")); got.Alias != "one" {
		t.Errorf("of two that are there from the start, %q is described", got.Alias)
	}
	if got := fake.Parse[map[string]any](t, s.Get("/props")); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	fake.Post[struct{}](s, "/v1/completions", `{"model":"a","prompt":"x"}`)
	if got := fake.Parse[map[string]any](t, s.Get("/props?model=a")); got["role"] != nil || got["model_alias"] != "a" || got["is_sleeping"] != false {
		t.Errorf("of a model: %v", got)
	}
}

// A model that is on its way is shown with how far it is, and ended by its deletion.
func TestModelsOnTheirWay(t *testing.T) {
	t.Parallel()
	lib := &fake.Shelf{Begun: make(chan struct{}), GoOn: make(chan struct{}), Ended: make(chan error, 1)}
	s := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Library = lib })
	fake.Post[struct{}](s, "/models", `{"model":"org/repo"}`)
	<-lib.Begun
	const status = `"status":{"value":"downloading","progress":{"https://x/a.gguf":{"done":5,"total":10}}}`
	for _, path := range []string{"/models", "/models/org/repo"} {
		if b := s.Get(path); !strings.Contains(string(b), `"id":"org/repo"`) || !strings.Contains(string(b), status) {
			t.Errorf("%s: %s", path, b)
		}
	}
	for query, want := range map[string]int{"": 400, "?model=none": 404, "?model=fake/model": 400} {
		if got, b, _ := s.Do("DELETE", "/models"+query, ""); got != want {
			t.Errorf("%q: %d %s, want %d", query, got, b, want)
		}
	}
	if got, b, _ := s.Do("DELETE", "/models?model=org/repo", ""); got != 200 || string(b) != `{"success":true}` {
		t.Errorf("%d %s", got, b)
	}
	if err := <-lib.Ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if status, b, _ := s.Do("GET", "/models/org/repo", ""); status != 404 {
		t.Errorf("%d %s", status, b)
	}
}

// A persona is a model of its own name, made from another.
func TestPersonasAsModels(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) {
		m.Aliases, m.Tags = []string{"other"}, []string{"x"}
	})
	of := func(name string, created time.Time) catalog.Persona {
		p, err := ask.NewPersona(&persona.Persona{Name: name, From: "fake/model", Created: created})
		if err != nil {
			t.Fatal(err)
		}
		return catalog.Persona{Persona: p, Base: "fake/model"}
	}
	s.Server.SetPersonas([]catalog.Persona{of("mario", time.Unix(1000, 0)), of("luigi", time.Time{})})
	type model struct {
		ID      string
		Aliases []string
		Tags    []string
		Parent  string
		Created int64
	}
	list := fake.Parse[struct {
		Data   []model
		Models []struct {
			Name    string
			Details struct {
				Parent string `json:"parent_model"`
			}
		}
	}](t, s.Get("/v1/models"))
	if len(list.Data) != 3 || len(list.Models) != 3 {
		t.Fatalf("%+v", list)
	}
	for i, name := range []string{"mario", "luigi"} {
		one := fake.Parse[model](t, s.Get("/v1/models/"+name))
		for _, m := range []model{one, list.Data[1+i]} {
			if m.ID != name || len(m.Aliases)+len(m.Tags) != 0 || m.Parent != "fake/model" || (m.Created == 1000) != (name == "mario") ||
				name == "luigi" && m.Created != list.Data[0].Created {
				t.Errorf("%+v", m)
			}
		}
		if card := list.Models[1+i]; card.Name != name || card.Details.Parent != "fake/model" {
			t.Errorf("%+v", card)
		}
	}
}

// Models are read again where a program or the server's own page asks for it, which is told to those who watch.
func TestModelsAreReadAgain(t *testing.T) {
	t.Parallel()
	scans := 0
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Rescan = func() error { scans++; return nil } })
	close(b)
	events := s.Lines("GET", "/models/sse", "")
	<-events // a comment
	for _, c := range []struct {
		header, value string
		status, scans int
	}{{"Sec-Fetch-Site", "cross-site", 403, 0}, {"Sec-Fetch-Site", "same-origin", 200, 1}, {"X-Nothing", "x", 200, 2}} {
		r, _ := http.NewRequest("GET", s.URL+"/models?reload=1", nil)
		r.Header.Set(c.header, c.value)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != c.status || scans != c.scans {
			t.Errorf("%+v: %d, %d scans", c, resp.StatusCode, scans)
		}
	}
	for range 2 {
		if line := <-events; line != `data: {"model":"*","event":"models_reload"}` {
			t.Errorf("%s", line)
		}
	}
	s.Get("/models?reload=0")
	if scans != 2 {
		t.Errorf("%d scans", scans)
	}
	s.Refused("/models/unload", `{}`, 400, "model")
	s.Server.Remove("a")
	if line := <-events; line != `data: {"model":"a","event":"model_remove"}` {
		t.Errorf("%s", line)
	}
}

// A download that has ended says so, and one may be ended like a model.
func TestEndsOfDownloads(t *testing.T) {
	t.Parallel()
	lib := &fake.Shelf{}
	s := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Library = lib })
	events := s.Lines("GET", "/models/sse", "")
	<-events // a comment
	fake.Post[struct{}](s, "/models", `{"model":"org/good"}`)
	for _, want := range []string{`"event":"model_status","data":{"status":"downloading"}}`, `"event":"download_finished"}`} {
		if line := <-events; line != `data: {"model":"org/good",`+want {
			t.Errorf("%s", line)
		}
	}
	lib.Begun, lib.GoOn, lib.Ended = make(chan struct{}), make(chan struct{}), make(chan error, 1)
	fake.Post[struct{}](s, "/models", `{"model":"org/slow"}`)
	<-lib.Begun
	if status, b, _ := s.Do("POST", "/models/load", `{"model":"org/slow"}`); status != 404 {
		t.Errorf("loading what is on its way: %d %s", status, b)
	}
	fake.Post[struct{}](s, "/models/unload", `{"model":"org/slow"}`)
	if err := <-lib.Ended; err == nil {
		t.Error("it was not ended")
	}
}
