package fake

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
)

// Hi is the smallest conversation, as a field.
const Hi = `"messages":[{"role":"user","content":"hi"}]`

// A Site is a server at an address.
type Site struct {
	*Engine // nil: its models have real ones
	Server  *server.Server
	Device  *engine.Device // of the real engines
	URL     string

	t testing.TB
}

// New starts a server that answers with reply. change may be nil.
func New(t testing.TB, reply string, change func(*server.Config, *ask.Model, *Engine)) *Site {
	t.Helper()
	f := &Engine{Reply: reply}
	c := server.Config{Build: "test", Ping: -1}
	m := newModel(t, f)
	if change != nil {
		change(&c, &m, f)
	}
	s := &Site{Engine: f, t: t}
	s.serve(c, m)
	return s
}

// Handler returns the handler of a server whose model takes everything and generates nothing.
func Handler(t testing.TB, c server.Config, change func(*ask.Model)) http.Handler {
	t.Helper()
	m := newModel(t, &Engine{Quiet: true})
	m.Name, m.Fingerprint = "m", ""
	if change != nil {
		change(&m)
	}
	c.Ping = cmp.Or(c.Ping, -1)
	s := server.New(c)
	(&Site{Server: s, t: t}).with(m)
	return s.Handler()
}

// serve starts the server of a site, with models that are loaded.
func (s *Site) serve(c server.Config, all ...ask.Model) {
	s.t.Helper()
	s.Server = server.New(c)
	for _, m := range all {
		s.with(m)
	}
	h := httptest.NewServer(s.Server.Handler())
	s.t.Cleanup(h.Close)
	s.URL = h.URL
}

// with adds a model that is loaded.
func (s *Site) with(m ask.Model) {
	s.t.Helper()
	Starting(s.t, s.Server, append([]string{m.Name}, m.Aliases...)...)(m)
}

// Starting adds to a server a model that is starting, and is loaded by what it returns.
func Starting(t testing.TB, s *server.Server, names ...string) (loaded func(ask.Model)) {
	t.Helper()
	got := make(chan ask.Model, 1)
	src := catalog.Source{Spec: models.Spec[ask.Model]{
		Names: names, Starting: true,
		Load: func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
			m := <-got
			got <- m // for when it is loaded again
			return &Still{&m}, nil
		},
	}}
	if err := s.Add(src); err != nil {
		t.Fatal(err)
	}
	return func(m ask.Model) {
		got <- m
		if err := s.Load(names[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// Model returns the first model that is loaded.
func (s *Site) Model() *ask.Model { return s.Server.Models().Loaded()[0] }

// Do sends a request and returns the status and the answer.
func (s *Site) Do(method, path, body string) (int, []byte, http.Header) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if json.Valid([]byte(body)) {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, b, resp.Header
}

// Get sends a request that is right and returns its answer.
func (s *Site) Get(path string) []byte { s.t.Helper(); return s.right("GET", path, "") }

func (s *Site) right(method, path, body string) []byte {
	s.t.Helper()
	status, b, _ := s.Do(method, path, body)
	if status != 200 {
		s.t.Fatalf("%s %s %s: status %d: %s", method, path, body, status, b)
	}
	return b
}

// Post sends a request that is right and returns its answer.
func Post[T any](s *Site, path, body string) T {
	s.t.Helper()
	return Parse[T](s.t, s.right("POST", path, body))
}

// Parse reads JSON.
func Parse[T any](t testing.TB, b []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

// Ask asks a handler without a network.
func Ask(h http.Handler, method, path, body string) (int, []byte) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json") // without which no tool is called
	h.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// Events sends a request and returns the data of the events that answer it.
func (s *Site) Events(path, body string) []string {
	s.t.Helper()
	var out []string
	lines := bufio.NewScanner(bytes.NewReader(s.stream(path, body)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			out = append(out, data)
		} else if lines.Text() != "" && !strings.HasPrefix(lines.Text(), ":") {
			s.t.Fatalf("the line %q is no event", lines.Text())
		}
	}
	return out
}

// NamedEvents returns the data of the events of a stream, whose names are their types.
func (s *Site) NamedEvents(path, body string) []string {
	s.t.Helper()
	var out []string
	for _, e := range strings.Split(strings.TrimSuffix(string(s.stream(path, body)), "\n\n"), "\n\n") {
		if strings.HasPrefix(e, ":") {
			continue
		}
		name, data, ok := strings.Cut(strings.TrimPrefix(e, "event: "), "\ndata: ")
		if got := Parse[struct {
			Type string `json:"type"`
		}](s.t, []byte(data)).Type; !ok || got != name {
			s.t.Fatalf("the event %q has the type %q", e, got)
		}
		out = append(out, data)
	}
	return out
}

func (s *Site) stream(path, body string) []byte {
	s.t.Helper()
	status, b, h := s.Do("POST", path, body)
	if status != 200 || h.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("POST %s %s: status %d, %s: %s", path, body, status, h.Get("Content-Type"), b)
	}
	return b
}

// Lines sends what a stream has to a channel, line by line, without empty ones.
func (s *Site) Lines(method, path, body string) <-chan string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json") // without which no tool is called
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if in.Text() != "" {
				all <- in.Text()
			}
		}
	}()
	return all
}

// Ignore sends a request, and reads nothing but the status of the answer.
func (s *Site) Ignore(path, body string) (net.Conn, <-chan int) {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		s.t.Fatal(err)
	}
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(body),
		body)
	status := make(chan int, 1)
	go func() {
		line, _ := bufio.NewReaderSize(c, 16).Peek(len("HTTP/1.1 200"))
		n := 0
		_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &n)
		status <- n
	}()
	return c, status
}

// Tokens returns the tokens of a text.
func (s *Site) Tokens(text string) []int32 {
	s.t.Helper()
	return Post[struct {
		Tokens []int32 `json:"tokens"`
	}](s, "/tokenize", fmt.Sprintf(`{"content":%q,"add_special":true}`, text)).Tokens
}

// Probs returns the log-probabilities of the thousand likeliest tokens after others.
func (s *Site) Probs(ids []int32) map[int32]float64 {
	s.t.Helper()
	prompt, _ := json.Marshal(ids)
	a := Post[struct {
		Probs []struct {
			Top []struct {
				ID      int32   `json:"id"`
				Logprob float64 `json:"logprob"`
			} `json:"top_logprobs"`
		} `json:"completion_probabilities"`
	}](s, "/completion", fmt.Sprintf(`{"prompt":%s,"n_predict":1,"n_probs":1000,"ignore_eos":true,"cache_prompt":false}`,
		prompt))
	all := map[int32]float64{}
	for _, top := range a.Probs[0].Top {
		all[top.ID] = top.Logprob
	}
	return all
}

// An Error is what llama-server's and OpenAI's clients read of a refusal.
type Error struct {
	Code    any    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param"`
	Prompt  int    `json:"n_prompt_tokens"`
	Ctx     int    `json:"n_ctx"`
	Queued  int    `json:"n_queued"`
}

// ErrorOf reads an error.
func ErrorOf(t testing.TB, b []byte) Error {
	t.Helper()
	return Parse[struct {
		Error Error `json:"error"`
	}](t, b).Error
}

// Refused checks that a request is refused for a field, by name.
func (s *Site) Refused(path, body string, status int, param string) {
	s.t.Helper()
	got, b, _ := s.Do("POST", path, body)
	e := ErrorOf(s.t, b)
	if strings.HasPrefix(path, "/v1/messages") { // Anthropic's have neither
		e.Code, e.Param = status, param
	}
	if got != status || fmt.Sprint(e.Code) != fmt.Sprint(status) || e.Type == "" || e.Message == "" || e.Param != param ||
		!strings.HasPrefix(e.Message, param) {
		s.t.Errorf("POST %s %.200s: got %d %s, want %d for %q", path, body, got, b, status, param)
	}
}

// Idle waits until no slot of a model works.
func (s *Site) Idle() {
	s.t.Helper()
	Eventually(s.t, "idle", func() bool {
		for _, m := range s.Server.Models().Loaded() {
			if slices.ContainsFunc(m.Engine.Status().Slots, func(slot engine.SlotStatus) bool { return slot.Busy }) {
				return false
			}
		}
		return true
	})
}

// Forgets waits until no request runs under an id.
func (s *Site) Forgets(id string) {
	s.t.Helper()
	Eventually(s.t, "forgotten", func() bool {
		status, _, _ := s.Do("DELETE", "/v1/chat/completions/"+id, "")
		return status == http.StatusNotFound
	})
}

// Eventually waits until ok holds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s after a minute", what)
		}
	}
}

// A Log is a writer that several goroutines may use.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
