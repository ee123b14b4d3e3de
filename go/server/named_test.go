package server_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// The body's name of a model is before the query's; where there is one model alone, both mean it.
func TestWhichNameCounts(t *testing.T) {
	t.Parallel()
	s, b := fake.NewRouter(t, nil)
	close(b)
	type named struct{ Model string }
	for _, c := range []struct{ query, body, want string }{
		{"?model=b", `{"prompt":"x","model":"a"}`, "a"}, {"?model=b", `{"prompt":"x"}`, "b"}, {"", `{"prompt":"x","model":"also-b"}`, "b"},
		{"?model=a", `{"prompt":"x","model":""}`, "a"},
	} {
		if got := fake.Post[named](s, "/v1/completions"+c.query, c.body).Model; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	alone := fake.New(t, "", nil)
	for _, query := range []string{"", "?model=some"} {
		if got := fake.Post[named](alone, "/v1/completions"+query, `{"prompt":"x","model":"other"}`).Model; got != "fake/model" {
			t.Errorf("%s: %s", query, got)
		}
	}
	// Where adapters come and go, a name may be that of one that has gone: it does not mean the model.
	changing := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.LoraDir = t.TempDir() })
	for name, want := range map[string]int{"gone": 404, "fake/model": 200, "": 200} {
		if status, b, _ := changing.Do("POST", "/v1/completions", `{"prompt":"x","model":"`+name+`"}`); status != want {
			t.Errorf("%q: %d %s", name, status, b)
		}
	}
}

// Whose clients read an error is told by the path.
func TestErrorsOfNoRoute(t *testing.T) {
	t.Parallel()
	h := fake.Handler(t, server.Config{}, nil)
	for path, begins := range map[string]string{
		"/none": `{"error":{"code":404,`, "/v1/none": `{"error":{"code":404,`, "/v1/messages/none": `{"type":"error","error":{"type":"not_found_error"`, "/api/none": `{"error":"there is no`,
	} {
		if status, b := fake.Ask(h, "POST", path, "{}"); status != 404 || !strings.HasPrefix(strings.ReplaceAll(string(b), `"error":{"message"`, `"error":{"type":"not_found_error","message"`), begins) {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	for path, begins := range map[string]string{"/v1/messages": `{"type":"error"`, "/api/chat": `{"error":"DELETE is not for \"/api/chat\", want POST"`, "/completion": `{"error":{"code":405`} {
		if status, b := fake.Ask(h, "DELETE", path, ""); status != 405 || !strings.HasPrefix(string(b), begins) {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	for path, status := range map[string]int{"/health": 200, "/docs": 200, "/openapi.json": 200, "/cors-proxy": 403, "/completion": 405} {
		r, w := httptest.NewRequest("HEAD", path, nil), httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != status {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
}

// A body whose length nobody says may have as much as the program says, or else 64 MiB, of the memory for bodies.
func TestBodiesOfUnknownLength(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit uint64
		most  int64 // 0: the program does not say
		want  int
	}{{32 << 20, 0, 413}, {32 << 20, 1 << 20, 200}, {64<<20 - 1, 0, 413}, {64 << 20, 0, 200}, {1 << 30, 0, 200}} {
		budget := mem.NewBudget(c.limit, "a test")
		d, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: budget})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.Close)
		config := server.Config{Device: d}
		if c.most > 0 {
			config.MaxBody = func(*gin.Context) int64 { return c.most }
		}
		h := fake.Handler(t, config, nil)
		body := struct{ *strings.Reader }{strings.NewReader(`{"prompt":"x","more":"` + strings.Repeat("a", 100_000) + `"}`)}
		r, w := httptest.NewRequest("POST", "/completion", body), httptest.NewRecorder()
		if h.ServeHTTP(w, r); r.ContentLength >= 0 || w.Code != c.want || c.want == 413 && !strings.Contains(w.Body.String(), "the body may take 67.1 MB of memory") {
			t.Errorf("%+v: %d %.200s", c, w.Code, w.Body)
		}
	}
}

// A prompt whose making takes more memory than there is is refused before it is made.
func TestPromptsAreAdmitted(t *testing.T) {
	t.Parallel()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 1, Budget: mem.NewBudget(4<<20, "a test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	h := fake.Handler(t, server.Config{Device: d}, nil)
	for n, want := range map[int]int{1 << 20: 413, 1000: 200} {
		status, b := fake.Ask(h, "POST", "/completion", `{"prompt":"x","more":"`+strings.Repeat("a", n)+`"}`)
		if status != want || want == 413 && !strings.Contains(string(b), "the prompt may take") {
			t.Errorf("%d bytes: %d %.200s", n, status, b)
		}
	}
}

// What grammars and stored answers take is part of what the device counts.
func TestCountedMemory(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Names: []string{"a", "b"}})
	of := func(purpose string) uint64 {
		limit, reason := s.Device.Budget().Limit()
		s.Device.Adjust(engine.Reading{Limit: limit, Reason: reason}) // which counts
		return s.Device.Budget().ByPurpose()[purpose]
	}
	before := of("grammars")
	fake.Post[struct{}](s, "/v1/completions", `{"model":"a","prompt":"x","max_tokens":1,"grammar":"root ::= [a-z]+"}`)
	one := of("grammars")
	fake.Post[struct{}](s, "/v1/completions", `{"model":"b","prompt":"x","max_tokens":1,"grammar":"root ::= [a-z]+"}`)
	if two := of("grammars"); one <= before || two <= one {
		t.Errorf("grammars take %d, then %d, then %d", before, one, two)
	}
	fake.Post[struct{}](s, "/v1/responses", `{"model":"a","input":"Hi","max_output_tokens":1}`)
	if of("stored responses") == 0 {
		t.Error("a stored answer takes nothing")
	}
}

// What is not supported says so once, and inputs have no default in the document.
func TestPropertiesOfTheDocument(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	all := fake.Parse[struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Content map[string]any }
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]json.RawMessage }
		}
	}](t, s.Get("/openapi.json"))
	seen := 0
	for of, schema := range all.Components.Schemas {
		for name, p := range schema.Properties {
			if n := strings.Count(string(p), "Not supported yet"); n > 1 {
				t.Errorf("%s: %s says %d times that it is not supported", of, name, n)
			} else if n == 1 {
				seen++
			}
		}
	}
	if seen == 0 {
		t.Error("all is supported")
	}
	native := all.Components.Schemas["NativeRequest"].Properties
	for name, has := range map[string]bool{"temperature": true, "grammar": true, "guided_regex": false, "guided_choice": false, "model": false, "prompt": false} {
		if strings.Contains(string(native[name]), `"default":`) != has {
			t.Errorf("%s: %s", name, native[name])
		}
	}
	for path, streams := range map[string]bool{"/v1/chat/completions": true, "/v1/embeddings": false} {
		if _, is := all.Paths[path]["post"].Responses["200"].Content["text/event-stream"]; is != streams {
			t.Errorf("%s is a stream: %v", path, is)
		}
	}
}

// panicking is an engine that fails at every request.
type panicking struct{ *fake.Engine }

func (panicking) Submit(*engine.Request) (ask.Ticket, error) { panic("no engine") }

// A request of a batch that panics is its line's error, and the log has where.
func TestBatchRequestPanics(t *testing.T) {
	t.Parallel()
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var log fake.Log
	s := fake.New(t, "", func(c *server.Config, m *ask.Model, f *fake.Engine) {
		c.Batches, c.Log, m.Engine = store, zerolog.New(&log), panicking{f}
	})
	in, err := store.AddFile("me", "in", "batch", strings.NewReader(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.AddBatch("me", in.ID, "/v1/completions", "24h", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Server.RunBatches(ctx) }()
	fake.Eventually(t, "answered", func() bool { b, err = store.Batch("me", b.ID); return err != nil || b.Failed+b.Completed > 0 })
	cancel()
	<-done
	if text := log.String(); b.Counts.Failed != 1 || !strings.Contains(text, `"message":"a request of a batch panicked"`) || !strings.Contains(text, `"stack"`) || !strings.Contains(text, "no engine") {
		t.Errorf("%+v, the log has %s", b, text)
	}
}
