package answer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// noted are the log fields of the requests that ended.
type noted struct {
	mu   sync.Mutex
	all  map[string]map[string]any // by request
	done chan struct{}
}

func newNoted() *noted {
	return &noted{all: map[string]map[string]any{}, done: make(chan struct{}, 1000)}
}

func (n *noted) note(c *gin.Context, fields map[string]any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := c.GetHeader("X-Test")
	if n.all[id] == nil {
		n.all[id] = map[string]any{}
	}
	maps.Copy(n.all[id], fields)
	n.done <- struct{}{}
}

// of waits for the fields of a request, as the log has them.
func (n *noted) of(t *testing.T, id string) map[string]any {
	t.Helper()
	for {
		n.mu.Lock()
		fields := n.all[id]
		n.mu.Unlock()
		if fields != nil {
			return fields
		}
		select {
		case <-n.done:
		case <-time.After(time.Minute):
			t.Fatalf("request %s is not noted", id)
		}
	}
}

// send posts a body with an id for noted, and reads at most so many bytes of the answer; -1: all.
func sendNoted(t *testing.T, s *fake.Site, ctx context.Context, id, path, body string, bytes int64) {
	t.Helper()
	r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+path, strings.NewReader(body))
	r.Header.Set("X-Test", id)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if bytes < 0 {
		bytes = 1 << 30
	}
	if _, err := io.CopyN(io.Discard, resp.Body, bytes); err != nil && err != io.EOF {
		t.Fatal(err)
	}
}

// The log tells how a request ended, and in which times.
func TestNotesOfRequests(t *testing.T) {
	t.Parallel()
	n := newNoted()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Note: n.note}})
	ctx := t.Context()
	sendNoted(t, s, ctx, "length", "/v1/completions", `{"prompt":"Once upon a time","max_tokens":9,"temperature":0}`, -1)
	sendNoted(t, s, ctx, "word", "/v1/completions",
		`{"prompt":"Once upon a time","max_tokens":90,"temperature":0,"stop":"a","stream":true}`, -1)
	sendNoted(t, s, ctx, "context", "/v1/completions",
		`{"prompt":"Once upon a time","max_tokens":-1,"temperature":0,"ignore_eos":true}`, -1)
	for id, want := range map[string]string{"length": "length", "word": "stop", "context": "context"} {
		f := n.of(t, id)
		generated := f["completion_tokens"].(int)
		if f["outcome"] != want || f["prompt_tokens"] != 6 && f["prompt_tokens"] != 5 || id == "length" && generated != 9 ||
			generated == 0 {
			t.Errorf("%s: %v", id, f)
		}
		for _, name := range []string{"queue_ms", "ttft_ms", "tokens_per_s"} {
			if v, ok := f[name].(float64); !ok || v < 0 || name != "queue_ms" && v == 0 && generated > 1 {
				t.Errorf("%s: %s is %v", id, name, f[name])
			}
		}
		if f["error"] != nil {
			t.Errorf("%s: %v", id, f)
		}
	}
}

// A client that leaves has its outcome, and the tokens that were there for it.
func TestNotesOfCancelled(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"true", "false"} {
		n := newNoted()
		at := make(chan struct{})
		s := fake.Demo(t, fake.Setup{Server: server.Config{Note: n.note}, Submitted: func(r *engine.Request) {
			r.Sink = &nthToken{Sink: r.Sink, n: 20, reached: func() { close(at) }}
		}})
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-at
			leave()
		}()
		r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/completions",
			strings.NewReader(`{"prompt":"Once upon a time","max_tokens":-1,"ignore_eos":true,"stream":`+stream+`}`))
		r.Header.Set("X-Test", "left")
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		f := n.of(t, "left")
		if f["outcome"] != "cancelled" || f["prompt_tokens"].(int) == 0 || f["completion_tokens"].(int) < 20 ||
			f["ttft_ms"].(float64) == 0 {
			t.Errorf("stream %s: %v", stream, f)
		}
	}
}

// nthToken calls reached at a token of a request.
type nthToken struct {
	engine.Sink
	n       int
	reached func()
}

func (s *nthToken) Token(t generate.Token) bool {
	if s.n--; s.n == 0 {
		s.reached()
	}
	return s.Sink.Token(t)
}

// The reason of a refusal is in the log, without what the client wrote.
func TestNotesOfRefused(t *testing.T) {
	t.Parallel()
	n := newNoted()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Note: n.note}})
	for i, tt := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"temperature":"my secret"}`, "temperature: "},
		{"/v1/chat/completions", `{"messages":"my secret"}`, "messages: "},
		{"/v1/chat/completions", `{"messages":[{"role":"my secret","content":"x"}]}`, "messages: "},
		{"/v1/decisions", `{"prompt":"x","choices":["my secret","my secret"]}`, "choices: element 1: "},
		{"/v1/completions", `{"prompt":"x","grammar":"root ::= my secret ("}`, "grammar: "},
		{"/v1/completions", `{"prompt":"x","guided_regex":"my secret("}`, "guided_regex: "},
		{"/v1/completions", `{"prompt":"x","max_tokens":2`, "the body"},
		{"/v1/completions", `{"prompt":"` + strings.Repeat("my secret ", 2000) + `"}`,
			"exceeds the available context size of 1024"},
		{"/v1/messages", `{"messages":[{"role":"user","content":"` + strings.Repeat("my secret ", 2000) +
			`"}],"max_tokens":1}`, "prompt is too long"},
		{"/api/chat", `{"model":"none","messages":[]}`, "not found, want one of demo"},
	} {
		id := fmt.Sprint(i)
		sendNoted(t, s, t.Context(), id, tt.path, tt.body, -1)
		f := n.of(t, id)
		text, _ := f["error"].(string)
		if !strings.Contains(text, tt.want) || strings.Contains(text, "secret") || strings.Contains(text, "\n") ||
			len(text) > 300 {
			t.Errorf("%s %.80s: %v, want %q", tt.path, tt.body, f, tt.want)
		}
	}
}

// A long prompt has lines that say how far it is.
func TestProgressInTheLog(t *testing.T) {
	t.Parallel()
	var log fake.Log
	s := fake.Demo(t, fake.Setup{Server: server.Config{Log: zerolog.New(&log), Progress: time.Nanosecond}})
	prompt := strings.Repeat("a dog and a cat ", 120)
	fake.Post[struct{}](s, "/v1/completions", `{"prompt":"`+prompt+`","max_tokens":1}`)
	fake.Post[struct{}](s, "/v1/completions", `{"prompt":"`+prompt+` or","max_tokens":1,"stream_options":null}`)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	var first struct {
		Message string `json:"message"`
		Model   string `json:"model"`
		Done    int    `json:"done_tokens"`
		Total   int    `json:"prompt_tokens"`
		Took    *int   `json:"took_ms"`
	}
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first.Message != "reading the prompt" ||
		first.Model != "demo" || first.Done <= 0 || first.Done >= first.Total || first.Took == nil {
		t.Errorf("%v: %q", err, lines)
	}
	if strings.Contains(log.String(), "dog") {
		t.Errorf("a line with the prompt: %s", log.String())
	}
}
