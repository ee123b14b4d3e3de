package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/httpapi"
)

const goesOn = ", there was a little girl named Lily. Lily lived by"

func open(t *testing.T, options ...quern.Option) *quern.Model {
	t.Helper()
	return openWith(t, append([]quern.Option{quern.WithThreads(1)}, options...)...)
}

func openWith(t *testing.T, options ...quern.Option) *quern.Model {
	t.Helper()
	m, err := quern.Open(t.Context(), quern.Demo, append([]quern.Option{
		quern.WithContextLength(256), quern.WithKVMemory(32 << 20)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func handler(t *testing.T, c httpapi.Config) *httpapi.Handler {
	t.Helper()
	h, err := httpapi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// do returns the status and the body of an answer.
func do(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// All APIs answer under a prefix, behind the program's authentication and beside its own routes, while it asks the model
// itself.
func TestHandler(t *testing.T) {
	t.Parallel()
	m := open(t)
	h := handler(t, httpapi.Config{Models: []httpapi.Model{{Name: "mine", Aliases: []string{"other"}, Model: m}}})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /own", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "own") })
	mux.Handle("/llm/", http.StripPrefix("/llm", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, ok := r.BasicAuth(); !ok || user != "anna" || pass != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})))
	at := httptest.NewServer(mux)
	defer at.Close()

	if status, body := do(t, "GET", at.URL+"/own", ""); status != 200 || body != "own" {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := do(t, "GET", at.URL+"/llm/v1/models", ""); status != http.StatusUnauthorized {
		t.Errorf("%d without authentication", status)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r, err := m.Complete(t.Context(), quern.Request{Prompt: "Once upon a time", MaxTokens: 12, Temperature: new(0.0)})
			if err != nil || r.Text() != goesOn {
				t.Errorf("%q, %v", r.Text(), err)
			}
		})
	}
	key := []string{"Authorization", "Basic YW5uYTpzZWNyZXQ="}
	const ask = `"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 8`
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/completions", `{"model": "mine", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}`, goesOn},
		{"POST", "/v1/completions", `{"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, "stream": true}`, "data: [DONE]"},
		{"POST", "/v1/chat/completions", `{` + ask + `}`, `"chat.completion"`},
		{"POST", "/v1/messages", `{"model": "other", ` + ask + `}`, `"type":"message"`},
		{"POST", "/api/chat", `{"model": "mine", "stream": false, "messages": [{"role": "user", "content": "Hi"}], "options": {"num_predict": 4}}`, `"done":true`},
		{"POST", "/completion", `{"prompt": "Once upon a time", "n_predict": 12, "temperature": 0}`, goesOn},
		{"POST", "/v1/embeddings", `{"input": "a cat"}`, `"embedding":[`},
		{"GET", "/v1/models", "", `"mine"`},
		{"GET", "/api/tags", "", `"mine`},
		{"GET", "/props", "", `"total_slots":32`},
		{"GET", "/v1/memory", "", `"purposes"`},
		{"GET", "/health", "", `"ok"`},
		{"GET", "/openapi.json", "", `"openapi"`},
	} {
		if status, body := do(t, c.method, at.URL+"/llm"+c.path, c.body, key...); status != 200 || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %s", c.path, status, body, c.want)
		}
	}
	wg.Wait()
	for path, want := range map[string]int{"/nothing": 404, "/v1/models/": 404, "/models/unload": 403, "/v1/batches": 501, "/v1/mcp/tools": 501} {
		method := "GET"
		if want == 403 {
			method = "POST"
		}
		if status, body := do(t, method, at.URL+"/llm"+path, `{"model": "mine"}`, key...); status != want || !json.Valid([]byte(body)) || strings.Contains(body, "--") {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}

// Of several models a request means the one that it names, and the first by itself. One that the program has closed is no
// longer there, and no other answers for it.
func TestSeveral(t *testing.T) {
	t.Parallel()
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := d.Status()
	one := []quern.Option{quern.WithDevice(d), quern.WithContextLength(128)}
	a, b := openWith(t, append(one, quern.WithParallel(3))...), openWith(t, append(one, quern.WithParallel(5))...)
	h := handler(t, httpapi.Config{Models: []httpapi.Model{{Name: "a", Model: a}, {Name: "b", Model: b}}})
	at := httptest.NewServer(h)
	defer at.Close()
	for path, want := range map[string]string{"/props": `"total_slots":3`, "/props?model=b": `"total_slots":5`} {
		if status, body := do(t, "GET", at.URL+path, ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
	}
	b.Close()
	const ask = `{"model": %q, "prompt": "a", "max_tokens": 2}`
	if status, body := do(t, "POST", at.URL+"/v1/completions", fmt.Sprintf(ask, "b")); status < 500 || !strings.Contains(body, "closed") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := do(t, "POST", at.URL+"/v1/completions", fmt.Sprintf(ask, "a")); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	h.Close()
	if status, _ := do(t, "POST", at.URL+"/v1/completions", fmt.Sprintf(ask, "a")); status != http.StatusServiceUnavailable {
		t.Errorf("%d of a closed handler", status)
	}
	if r, err := a.Complete(t.Context(), quern.Request{Prompt: "Once upon a time", MaxTokens: 12, Temperature: new(0.0)}); err != nil || r.Text() != goesOn {
		t.Errorf("the program's own: %v", err)
	}
	a.Close()
	if st := d.Status(); st.Used != before.Used || st.Models != 0 {
		t.Errorf("%+v, before %+v", st, before)
	}
}

// Requests that are being answered end with the model, with the handler, and with the context of the program's middleware.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*quern.Model, *httpapi.Handler, context.CancelFunc){
		"model":   func(m *quern.Model, _ *httpapi.Handler, _ context.CancelFunc) { m.Close() },
		"handler": func(_ *quern.Model, h *httpapi.Handler, _ context.CancelFunc) { h.Close() },
		"context": func(_ *quern.Model, _ *httpapi.Handler, cancel context.CancelFunc) { cancel() },
	} {
		m := open(t)
		h := handler(t, httpapi.Config{Models: []httpapi.Model{{Name: "mine", Model: m}}})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(ctx)) }))
		defer at.Close()
		resp, err := http.Post(at.URL+"/v1/completions", "application/json",
			strings.NewReader(`{"prompt": "Once upon a time", "ignore_eos": true, "stream": true}`))
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 20)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Fatal(err)
		}
		end(m, h, cancel)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Logf("%s: %v", name, err) // a stream that is cut is as good
		}
		resp.Body.Close()
	}
}

// Callers are those that the program names: their stored answers are their own, and administrators may do more.
func TestCallers(t *testing.T) {
	t.Parallel()
	m := open(t)
	h := handler(t, httpapi.Config{
		Models: []httpapi.Model{{Name: "mine", Model: m}}, Isolated: true,
		Caller: func(r *http.Request) httpapi.Caller {
			name := r.Header.Get("X-User")
			return httpapi.Caller{Name: name, Admin: name == "root", Priority: 5, Weight: 2}
		},
	})
	at := httptest.NewServer(h)
	defer at.Close()
	status, body := do(t, "POST", at.URL+"/v1/responses", `{"input": "Hi", "max_output_tokens": 4}`, "X-User", "anna")
	var stored struct{ ID string }
	if err := json.Unmarshal([]byte(body), &stored); err != nil || status != 200 || stored.ID == "" {
		t.Fatalf("%d %s, %v", status, body, err)
	}
	for user, want := range map[string]int{"anna": 200, "bob": 404} {
		if status, body := do(t, "GET", at.URL+"/v1/responses/"+stored.ID, "", "X-User", user); status != want {
			t.Errorf("%s: %d %s, want %d", user, status, body, want)
		}
	}
	const ask = `{"prompt": "a", "max_tokens": 1, "priority": %d}`
	for priority, want := range map[int]int{5: 200, 6: 403} {
		if status, body := do(t, "POST", at.URL+"/v1/completions", fmt.Sprintf(ask, priority)); status != want {
			t.Errorf("priority %d: %d %s, want %d", priority, status, body, want)
		}
	}
	// What an administrator unloads is the handler's view of the model; the next request has it again.
	if status, body := do(t, "POST", at.URL+"/models/unload", `{"model": "mine"}`, "X-User", "root"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := do(t, "POST", at.URL+"/v1/completions", `{"prompt": "a", "max_tokens": 1}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// What is wrong is one line of a kind.
func TestErrors(t *testing.T) {
	t.Parallel()
	m, closed := open(t), open(t)
	closed.Close()
	for name, c := range map[string]struct {
		config httpapi.Config
		kind   error
	}{
		"no models":        {httpapi.Config{}, quern.ErrInvalid},
		"a nil model":      {httpapi.Config{Models: []httpapi.Model{{Name: "a"}}}, quern.ErrInvalid},
		"no name":          {httpapi.Config{Models: []httpapi.Model{{Model: m}}}, quern.ErrInvalid},
		"a name twice":     {httpapi.Config{Models: []httpapi.Model{{Name: "a", Model: m}, {Name: "a", Model: m}}}, quern.ErrInvalid},
		"a closed model":   {httpapi.Config{Models: []httpapi.Model{{Name: "a", Model: closed}}}, quern.ErrClosed},
		"a closed second":  {httpapi.Config{Models: []httpapi.Model{{Name: "a", Model: m}, {Name: "b", Model: closed}}}, quern.ErrClosed},
		"a body's maximum": {httpapi.Config{Models: []httpapi.Model{{Name: "a", Model: m}}, MaxBody: -1}, quern.ErrInvalid},
	} {
		if h, err := httpapi.New(c.config); !errors.Is(err, c.kind) || strings.Contains(err.Error(), "\n") || h != nil {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	at := httptest.NewServer(handler(t, httpapi.Config{Models: []httpapi.Model{{Name: "a", Model: m}}, MaxBody: 100}))
	defer at.Close()
	if status, body := do(t, "POST", at.URL+"/v1/completions", `{"prompt": "`+strings.Repeat("a", 100)+`"}`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", status, body)
	}
}

// Nothing is left of handlers, and a program's own use of gin is as it was. Nothing is printed.
func TestNothingIsLeft(t *testing.T) {
	var printed bytes.Buffer
	mode, out := gin.Mode(), gin.DefaultWriter
	gin.SetMode(gin.DebugMode)
	gin.DefaultWriter = &printed
	defer func() {
		gin.SetMode(mode)
		gin.DefaultWriter = out
	}()
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := openWith(t, quern.WithDevice(d))
	once := func() {
		h, err := httpapi.New(httpapi.Config{Models: []httpapi.Model{{Name: "mine", Model: m}}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt": "a", "max_tokens": 1}`)))
		if w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		h.Close()
	}
	once()
	used, goroutines := d.Status().Used, runtime.NumGoroutine()
	for range 20 {
		once()
	}
	for wait := time.Now(); runtime.NumGoroutine() > goroutines && time.Since(wait) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines || d.Status().Used > used {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines and %d bytes, before %d and %d\n%s", n, d.Status().Used, goroutines, used, stacks[:runtime.Stack(stacks, true)])
	}
	if printed.Len() > 0 || gin.Mode() != gin.DebugMode {
		t.Errorf("gin is in the mode %s and said %s", gin.Mode(), &printed)
	}
}

// A program has models behind its own mux.
func Example() {
	m, err := quern.Open(context.Background(), quern.Demo, quern.WithContextLength(256))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	api, err := httpapi.New(httpapi.Config{Models: []httpapi.Model{{Name: "demo", Model: m}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.Close()
	mux := http.NewServeMux()
	mux.Handle("/llm/", http.StripPrefix("/llm", api))
	ask := strings.NewReader(`{"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}`)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/llm/v1/completions", ask))
	var answer struct{ Choices []struct{ Text string } }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Choices[0].Text)
	// Output: , there was a little girl named Lily. Lily lived by
}
