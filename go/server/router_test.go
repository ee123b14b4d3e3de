package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Without a model's name there is no telling which is meant; /props is the server's then.
func TestRouterWithoutName(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Models.Manual = true })
	close(b)
	for path, want := range map[string]string{
		"/v1/completions":            `there is no model \"\", want one of a, b, huge`,
		"/v1/completions?model=a":    `the model \"a\" is not loaded`,
		"/completion?autoload=never": `autoload`,
	} {
		if status, text, _ := s.Do("POST", path, `{"prompt":"x"}`); status < 400 || status > 404 ||
			!strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text, _ := s.Do("POST", "/v1/completions?autoload=true", `{"prompt":"x","model":"a"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, text, _ := s.Do("GET", "/props", ""); status != 200 || !strings.Contains(string(text), `"role":"router"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, _, _ := s.Do("GET", "/health", ""); status != 200 {
		t.Errorf("health is %d", status)
	}
}

// A model that sleeps is shown without being woken, and woken by a request.
func TestSleeping(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Models.Sleep = 20 * time.Millisecond })
	close(b)
	fake.Post[fake.TextAnswer](s, "/v1/completions", `{"prompt":"x","model":"a"}`)
	asleep := func() bool { st, _ := s.Server.Models().Status("a"); return st.State == models.Sleeping }
	fake.Eventually(t, "asleep", asleep)
	for _, path := range []string{"/props?model=a", "/slots?model=a", "/lora-adapters?model=a", "/models", "/health",
		"/api/tags", "/api/ps"} {
		status, text, _ := s.Do("GET", path, "")
		if status != 200 || !asleep() || strings.Contains(path, "props") &&
			!strings.Contains(string(text), `"is_sleeping":true`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if _, text, _ := s.Do("GET", "/api/ps", ""); strings.Contains(string(text), `"a:latest"`) {
		t.Errorf("/api/ps has a model that sleeps: %s", text)
	}
	fake.Post[fake.TextAnswer](s, "/v1/completions", `{"prompt":"x","model":"a"}`)
}

// What needs more than all of the memory is a fault that waiting does not mend.
func TestNeverFits(t *testing.T) {
	t.Parallel()
	s, _ := fake.NewRouter(t, nil)
	src := catalog.Source{}
	src.Names = []string{"never"}
	src.Load = func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
		return nil, &mem.LimitError{Purpose: "the model", Need: 9 << 30, Free: 1 << 30, Limit: 2 << 30, Reason: "a test"}
	}
	if err := s.Server.Add(src); err != nil {
		t.Fatal(err)
	}
	if status, text, head := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"never"}`); status != 500 ||
		head.Get("Retry-After") != "" || !strings.Contains(string(text), "no memory for the model: want 9.7 GB") {
		t.Errorf("%d %s", status, text)
	}
}

// A stream whose model is being loaded is kept alive by comments; what goes wrong then is its last event.
func TestWakingStream(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Ping = 5 * time.Millisecond })
	in := s.Lines("POST", "/v1/chat/completions",
		`{"model":"b","stream":true,"max_tokens":1,"messages":[{"role":"user","content":"x"}]}`)
	for range 3 {
		if line := <-in; line != ": ping" {
			t.Errorf("while it is loaded: %q", line)
		}
	}
	if status, text, _ := s.Do("POST", "/models/unload", `{"model":"b"}`); status != 400 ||
		!strings.Contains(string(text), "is being loaded") {
		t.Errorf("unloading one that a request waits for: %d %s", status, text)
	}
	close(b)
	all := ""
	for line := range in {
		all += line + "\n"
	}
	if !strings.Contains(all, `"model":"b"`) || !strings.HasSuffix(all, "data: [DONE]\n") {
		t.Errorf("the stream: %s", all)
	}
	if st, _ := s.Server.Models().Status("b"); st.Leases != 0 {
		t.Errorf("%d leases", st.Leases)
	}
	never := make(chan struct{})
	src := catalog.Source{}
	src.Names = []string{"broken"}
	src.Load = func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
		<-never
		return nil, errors.New("it is broken")
	}
	if err := s.Server.Add(src); err != nil {
		t.Fatal(err)
	}
	in = s.Lines("POST", "/v1/completions", `{"model":"broken","stream":true,"prompt":"x"}`)
	<-in
	close(never)
	last := ""
	for line := range in {
		last = line
	}
	if !strings.Contains(last, `data: {"error":`) || !strings.Contains(last, "it is broken") {
		t.Errorf("the last event: %s", last)
	}
	// One who leaves while the model is loaded leaves nothing.
	s2, b2 := fake.NewRouter(t, func(c *server.Config) { c.Ping = 5 * time.Millisecond })
	resp, err := http.Post(s2.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"model":"b","stream":true,"prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(resp.Body, make([]byte, 3))
	resp.Body.Close()
	fake.Eventually(t, "gone", func() bool { st, _ := s2.Server.Models().Status("b"); return st.Waiting == 0 })
	close(b2)
}

// What is no stream of events, or has lines in its place, has no comments while its model is loaded.
func TestWakingWithoutComments(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Ping = time.Millisecond })
	time.AfterFunc(30*time.Millisecond, func() { close(b) })
	var all sync.WaitGroup
	for path, body := range map[string]string{"/v1/completions": `{"model":"b","prompt":"x"}`, "/api/generate": `{"model":"b","prompt":"x"}`} {
		all.Go(func() {
			status, text, _ := s.Do("POST", path, body)
			for line := range strings.Lines(string(text)) {
				if status != 200 || !json.Valid([]byte(line)) {
					t.Errorf("%s: %d %q", path, status, line)
				}
			}
		})
	}
	all.Wait()
}

// As many requests wait for a model as the queue has room for.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, func(c *server.Config) { c.Models.Queue = 1 })
	done := make(chan int, 1)
	go func() {
		status, _, _ := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"b"}`)
		done <- status
	}()
	fake.Eventually(t, "waiting", func() bool { st, _ := s.Server.Models().Status("b"); return st.Waiting == 1 })
	status, text, head := s.Do("POST", "/v1/completions", `{"prompt":"x","model":"b"}`)
	if status != 429 || head.Get("Retry-After") == "" || !strings.Contains(string(text), `"n_queued":1`) {
		t.Errorf("%d %s", status, text)
	}
	close(b)
	if status := <-done; status != 200 {
		t.Errorf("the first: %d", status)
	}
}

// Reading about a model loads none: what is not loaded is said, whatever the request wants.
func TestReadingLoadsNothing(t *testing.T) {
	t.Parallel()
	s, _ := fake.NewRouter(t, nil)
	for _, path := range []string{"/props", "/slots", "/lora-adapters", "/tokenizer_info"} {
		for _, more := range []string{"", "&autoload=true"} {
			status, b, _ := s.Do("GET", path+"?model=a"+more, "")
			if status != http.StatusBadRequest || !strings.Contains(string(b), "not loaded") {
				t.Errorf("%s%s: status %d, %s", path, more, status, b)
			}
		}
		if n := len(s.Server.Models().Loaded()); n != 0 {
			t.Fatalf("%s loaded a model", path)
		}
	}
	if status, b, _ := s.Do("POST", "/completion", `{"model":"a","prompt":"x"}`); status != 200 {
		t.Fatalf("status %d, %s", status, b)
	}
	for _, path := range []string{"/props", "/slots", "/lora-adapters"} {
		if status, b, _ := s.Do("GET", path+"?model=a", ""); status != 200 {
			t.Errorf("%s: status %d, %s", path, status, b)
		}
	}
}

// No GET changes anything, so that no page of another site does by an image: models are neither loaded nor unloaded,
// and their list is read again for the server's own pages and for programs only.
func TestGetsChangeNothing(t *testing.T) {
	t.Parallel()
	scans := 0
	s, b := fake.NewRouter(t, func(c *server.Config) {
		c.Rescan = func() error { scans++; return nil }
	})
	close(b)
	fake.Post[fake.TextAnswer](s, "/v1/completions", `{"prompt":"x","model":"b"}`)
	n := 0
	for _, r := range s.Server.Routes() {
		if r.Method != http.MethodGet || r.Within {
			continue
		}
		for _, path := range r.Paths {
			for _, method := range []string{"GET", "HEAD"} {
				n++
				at := strings.NewReplacer(":id", "a", "*id", "a").Replace(path) + "?model=a&autoload=true&fail_on_no_slot=1"
				s.Do(method, at, "")
				a, _ := s.Server.Models().Status("a")
				b, _ := s.Server.Models().Status("b")
				if a.State != models.Unloaded || b.State != models.Loaded {
					t.Fatalf("%s %s: a is %v, b %v", method, at, a.State, b.State)
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d", n)
	}
	for _, c := range []struct {
		name, value string
		want, scans int
	}{
		{"Sec-Fetch-Site", "cross-site", 403, 0}, {"Sec-Fetch-Site", "same-site", 403, 0},
		{"Origin", "https://evil.example", 403, 0},
		{"Sec-Fetch-Site", "same-origin", 200, 1}, {"Sec-Fetch-Site", "none", 200, 2}, {"X-Nothing", "x", 200, 3},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/models?reload=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.name, c.value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want || scans != c.scans {
			t.Errorf("%s: %s: %d, and %d scans, want %d and %d", c.name, c.value, resp.StatusCode, scans, c.want, c.scans)
		}
	}
}
