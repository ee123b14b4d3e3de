package llamaserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// talk sends a chat of a conversation, as the client with a key, and returns its answer.
func talk(ctx context.Context, t *testing.T, s *fake.Site, key, conversation, fields string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/chat/completions",
		strings.NewReader(`{"messages":[{"role":"user","content":"hi"}],"temperature":0,"stream":true`+fields+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(answer.ConversationHeader, conversation)
	req.Header.Set("X-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// as sends a request of a client with a key.
func as(t *testing.T, s *fake.Site, key, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
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

// byKey has the clients of a server told apart.
func byKey(c *gin.Context) answer.Caller {
	return answer.Caller{Owner: c.GetHeader("X-Key"), Flow: c.GetHeader("X-Key"), Priority: ask.MaxPriority}
}

// textOf returns the text of a stream of a chat, which has come to its end.
func textOf(t *testing.T, stream string) (text string) {
	t.Helper()
	if !strings.HasSuffix(stream, "data: [DONE]\n\n") {
		t.Errorf("the stream ends with %q", stream[max(0, len(stream)-100):])
	}
	for line := range strings.Lines(stream) {
		data, _ := strings.CutPrefix(line, "data: ")
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal([]byte(data), &chunk) == nil && len(chunk.Choices) > 0 {
			text += chunk.Choices[0].Delta.Content
		}
	}
	return text
}

const slashed = "c 1::org/demo:Q8_0" // a name as llama-server's page has them

var atSlashed = "/v1/stream?conv_id=" + url.QueryEscape(slashed)

// A client that loses a stream reads the rest of it, to the byte, and nothing is computed for that. No other client has it.
func TestStreamIsResumed(t *testing.T) {
	t.Parallel()
	var submitted atomic.Int32
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: byKey},
		Submitted: func(*engine.Request) { submitted.Add(1) }})
	_, whole := as(t, s, "me", "POST", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"hi"}],"temperature":0,"stream":true,"max_tokens":60}`)

	ctx, leave := context.WithCancel(t.Context())
	resp := talk(ctx, t, s, "me", slashed, `,"max_tokens":60`)
	had := make([]byte, 300)
	if _, err := io.ReadFull(resp.Body, had); err != nil {
		t.Fatal(err)
	}
	leave()
	if submitted.Load() != 2 {
		t.Fatalf("%d sequences", submitted.Load())
	}
	status, rest := as(t, s, "me", "GET", atSlashed+"&from=300", "") // to its end
	if got := textOf(t, string(had)+rest); status != 200 || got == "" || got != textOf(t, whole) {
		t.Errorf("%d: the text %q, want %q", status, got, textOf(t, whole))
	}
	if status, all := as(t, s, "me", "GET", atSlashed, ""); status != 200 || all != string(had)+rest {
		t.Errorf("from the beginning: %d %q, want %q", status, all, string(had)+rest)
	}
	if submitted.Load() != 2 {
		t.Errorf("after it was read again there are %d sequences", submitted.Load())
	}
	type state struct {
		ID                 string `json:"conversation_id"`
		Done               bool   `json:"is_done"`
		Bytes              int    `json:"total_bytes"`
		Started, Completed int64
	}
	lookup := `{"conversation_ids":["c","c 1","unknown","c 1","c 1::org/demo:Q8_0","c 1::"]}` // several name it: it is told once
	status, b := as(t, s, "me", "POST", "/v1/streams/lookup", lookup)
	if got := fake.Parse[[]state](t, []byte(b)); status != 200 || len(got) != 1 || got[0].ID != slashed || !got[0].Done ||
		got[0].Bytes != len(had)+len(rest) || !strings.Contains(b, `"completed_at":1`) {
		t.Errorf("%d %s", status, b)
	}
	// Another key sees nothing of it, and cannot end it.
	if status, b := as(t, s, "you", "GET", atSlashed, ""); status != 404 {
		t.Errorf("another key: %d %s", status, b)
	}
	if status, b := as(t, s, "you", "POST", "/v1/streams/lookup", lookup); status != 200 || b != "[]" {
		t.Errorf("another key finds: %d %s", status, b)
	}
	if status, b := as(t, s, "you", "DELETE", atSlashed, ""); status != 204 {
		t.Errorf("another key deletes: %d %s", status, b)
	}
	sent := len(had) + len(rest)
	for from, want := range map[string]string{"-1": "from: ", "x": "from: ", "99999999999999999999": "from: ",
		fmt.Sprint(sent + 1): fmt.Sprintf(`"from: %d, and only %d bytes of the stream are sent, want at most so many"`, sent+1, sent)} {
		if status, b := as(t, s, "me", "GET", atSlashed+"&from="+from, ""); status != 400 || !strings.Contains(b, want) {
			t.Errorf("from %s: %d %s, want %s", from, status, b, want)
		}
	}
	if status, b := as(t, s, "me", "GET", fmt.Sprintf("%s&from=%d", atSlashed, len(had)+len(rest)), ""); status != 200 || b != "" {
		t.Errorf("from the end: %d %s", status, b)
	}
	for range 2 { // it may be gone
		if status, b := as(t, s, "me", "DELETE", atSlashed, ""); status != 204 || b != "" {
			t.Errorf("DELETE: %d %s", status, b)
		}
		if status, b := as(t, s, "me", "GET", atSlashed, ""); status != 404 {
			t.Errorf("after it was deleted: %d %s", status, b)
		}
	}
}

// A stream ends where it is deleted, or another of the conversation begins, and whoever reads it is told nothing more. Requests
// without a stream leave nothing, and so do those that are refused.
func TestStreamIsStopped(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: byKey}, Ctx: 4096})
	const long = `,"max_tokens":4000,"ignore_eos":true`
	first := talk(t.Context(), t, s, "me", "c", long)
	if _, err := io.ReadFull(first.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	yours := talk(t.Context(), t, s, "you", "c", long) // of the same name
	second := talk(t.Context(), t, s, "me", "c", long)
	if b, err := io.ReadAll(first.Body); err != nil || bytes.Contains(b, []byte("[DONE]")) {
		t.Errorf("the first came to its end: %v, %d bytes", err, len(b))
	}
	if _, err := io.ReadFull(second.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if status, b := as(t, s, "me", "HEAD", "/v1/stream?conv_id=c", ""); status != 200 || b != "" { // does not wait for its end
		t.Errorf("HEAD: %d %s", status, b)
	}
	read := make(chan string, 1)
	go func() {
		_, b := as(t, s, "me", "GET", "/v1/stream?conv_id=c", "")
		read <- b
	}()
	if status, b := as(t, s, "me", "DELETE", "/v1/stream?conv_id=c", ""); status != 204 {
		t.Errorf("%d %s", status, b)
	}
	if b, err := io.ReadAll(second.Body); err != nil || bytes.Contains(b, []byte("[DONE]")) {
		t.Errorf("the second came to its end: %v, %d bytes", err, len(b))
	}
	if b := <-read; strings.Contains(b, "[DONE]") {
		t.Errorf("who follows it reads its end: %d bytes", len(b))
	}
	if _, err := io.ReadFull(yours.Body, make([]byte, 10)); err != nil {
		t.Errorf("another's of that name: %v", err)
	}
	as(t, s, "you", "DELETE", "/v1/stream?conv_id=c", "")

	for _, fields := range []string{`,"stream":false,"max_tokens":1`, `,"max_tokens":"x"`, `,"n":1000`} {
		talk(t.Context(), t, s, "me", "none", fields).Body.Close()
	}
	if resp := talk(t.Context(), t, s, "me", strings.Repeat("x", 513), `,"max_tokens":1`); resp.StatusCode != 400 {
		t.Errorf("a long name: %d", resp.StatusCode)
	}
	if status, b := as(t, s, "me", "POST", "/v1/streams/lookup", `{"conversation_ids":["none","c",""]}`); b != "[]" {
		t.Errorf("%d %s", status, b)
	}
	many := `{"conversation_ids":["` + strings.Repeat(`x","`, 1024) + `"]}`
	if status, b := as(t, s, "me", "POST", "/v1/streams/lookup", many); status != 400 {
		t.Errorf("%d %.200s", status, b)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if status, b := as(t, s, "me", method, "/v1/stream", ""); status != 400 || !strings.Contains(b, "conv_id") {
			t.Errorf("%s without a conversation: %d %s", method, status, b)
		}
	}
}

// A request that is refused ends no stream of its conversation.
func TestRefusedEndsNoStream(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{Server: server.Config{Caller: byKey}, Ctx: 4096})
	first := talk(t.Context(), t, s, "me", "c", `,"max_tokens":500,"ignore_eos":true`)
	had := make([]byte, 10)
	if _, err := io.ReadFull(first.Body, had); err != nil {
		t.Fatal(err)
	}
	for _, fields := range []string{`,"max_tokens":"x"`, `,"n":1000`, `,"tools":[{"type":"function"}]`, `,"grammar":"root ::= ("`} {
		if resp := talk(t.Context(), t, s, "me", "c", fields); resp.StatusCode != 400 {
			t.Errorf("%.40s: %d", fields, resp.StatusCode)
		}
	}
	if status, b := as(t, s, "me", "POST", "/v1/streams/lookup", `{"conversation_ids":["c"]}`); strings.Count(b, "is_done") != 1 {
		t.Errorf("%d %s", status, b)
	}
	rest, err := io.ReadAll(first.Body)
	if err != nil || textOf(t, string(had)+string(rest)) == "" {
		t.Errorf("%v, %d bytes", err, len(rest))
	}
	if status, all := as(t, s, "me", "GET", "/v1/stream?conv_id=c", ""); status != 200 || all != string(had)+string(rest) {
		t.Errorf("%d, %d bytes, want %d", status, len(all), len(had)+len(rest))
	}
}

// Who follows a stream that fails before its first event has its error, and no stream of nothing.
func TestStreamFailsBeforeItBegins(t *testing.T) {
	t.Parallel()
	submitted, follows := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := fake.Demo(t, fake.Setup{
		Server: server.Config{Caller: func(c *gin.Context) answer.Caller {
			if c.Request.URL.Path == "/v1/stream" {
				once.Do(func() { close(follows) })
			}
			return byKey(c)
		}},
		Submitted: func(r *engine.Request) {
			close(submitted)
			<-follows
			r.Deadline = time.Unix(1, 0)
		},
	})
	status := make(chan int, 1)
	go func() { status <- talk(t.Context(), t, s, "me", "c", "").StatusCode }()
	<-submitted
	got, b := as(t, s, "me", "GET", "/v1/stream?conv_id=c", "")
	if want := <-status; want != 504 || got != 504 && got != 404 || !strings.Contains(b, "error") { // 404: it came late
		t.Errorf("%d %s, the request itself %d", got, b, want)
	}
	if status, b := as(t, s, "me", "POST", "/v1/streams/lookup", `{"conversation_ids":["c"]}`); b != "[]" {
		t.Errorf("it leaves %d %s", status, b)
	}
}

// While the model is loaded, who asks for the stream is told to come again; it may be ended then, and it comes to its end
// where its client has gone.
func TestStreamWaitsForItsModel(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello world", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Caller = byKey })
	m := *s.Model()
	m.Name = "late"
	load := make(chan struct{})
	if err := s.Server.Add(catalog.Source{Spec: models.Spec[ask.Model]{Names: []string{"late"},
		Load: func(ctx context.Context, _ func(float64)) (models.Instance[ask.Model], error) {
			select {
			case <-load:
				return &fake.Still{Of: &m}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}}); err != nil {
		t.Fatal(err)
	}
	waits := func(conversation string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			status, b := as(t, s, "me", "GET", "/v1/stream?conv_id="+conversation, "")
			if status == 503 {
				return
			}
			if status != 404 || time.Now().After(end) { // 404: the request has not come yet
				t.Fatalf("%d %s", status, b)
			}
		}
	}
	ended := make(chan string, 1)
	go func() {
		resp := talk(t.Context(), t, s, "me", "ended", `,"model":"late"`)
		b, _ := io.ReadAll(resp.Body)
		ended <- fmt.Sprint(resp.StatusCode, string(b))
	}()
	waits("ended")
	as(t, s, "me", "DELETE", "/v1/stream?conv_id=ended", "")
	if got := <-ended; !strings.HasPrefix(got, "400") || !strings.Contains(got, "cancelled") {
		t.Errorf("the request that was ended: %s", got)
	}
	if status, _ := as(t, s, "me", "GET", "/v1/stream?conv_id=ended", ""); status != 404 {
		t.Errorf("the stream that was ended: %d", status)
	}

	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"late","stream":true,`+fake.Hi+`}`))
		if err == nil {
			req.Header.Set(answer.ConversationHeader, "left")
			req.Header.Set("X-Key", "me")
			_, err = http.DefaultClient.Do(req)
		}
		gone <- err
	}()
	waits("left")
	leave()
	if err := <-gone; err == nil {
		t.Error("the request was answered")
	}
	close(load)
	for end := time.Now().Add(time.Minute); ; {
		status, b := as(t, s, "me", "GET", "/v1/stream?conv_id=left", "")
		if status == 200 {
			if got := textOf(t, b); got != "Hello world" {
				t.Errorf("the text %q", got)
			}
			break
		}
		if status != 503 || time.Now().After(end) {
			t.Fatalf("%d %s", status, b)
		}
	}
}
