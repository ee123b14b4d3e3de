package llamaserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

type (
	// textAnswer is a completion as clients read it.
	textAnswer struct {
		Model   string `json:"model"`
		Choices []struct {
			Text string `json:"text"`
		} `json:"choices"`
	}

	// routerList is GET /models as clients of several models read it.
	routerList struct {
		Data []struct {
			ID      string         `json:"id"`
			Aliases []string       `json:"aliases"`
			Path    string         `json:"path"`
			Meta    map[string]any `json:"meta"`
			Status  struct {
				Value  string   `json:"value"`
				Args   []string `json:"args"`
				Failed bool     `json:"failed"`
			} `json:"status"`
		} `json:"data"`
	}
)

// What is not loaded is listed with its status, and loaded by the request that names it.
func TestRouter(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, nil)
	statuses := func(want string) {
		t.Helper()
		_, text, _ := s.Do("GET", "/models", "")
		var got []string
		for _, e := range fake.Parse[routerList](t, text).Data {
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
	if a := fake.Post[textAnswer](s, "/v1/completions", `{"prompt":"x","model":"also-a"}`); a.Model != "a" ||
		a.Choices[0].Text != " Hello" && a.Choices[0].Text != "Hello" {
		t.Errorf("%+v", a)
	}
	statuses("a loaded, b unloaded, huge unloaded")
	if status, text, head := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"huge"}`); status != 503 ||
		head.Get("Retry-After") != "5" || !strings.Contains(string(text), "no memory for the model: want 9.7 GB") {
		t.Errorf("one that does not fit: %d %s", status, text)
	}
	statuses("a loaded, b unloaded, huge unloaded failed")
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
		list := fake.Parse[routerList](t, text)
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
	if status, text, _ := s.Do("POST", "/models", `{}`); status != 400 || fake.ErrorOf(t, text).Param != "model" {
		t.Errorf("a download of nothing: %d %s", status, text)
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
