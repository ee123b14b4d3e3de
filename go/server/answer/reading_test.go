package answer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// repeating are requests whose texts all begin with a long one, of n bytes.
func repeating(n, texts int) map[string]string {
	var list []string
	for i := range texts {
		list = append(list, fmt.Sprintf(`"%d"`, i))
	}
	long, all := strings.Repeat("x", n), strings.Join(list, ",")
	return map[string]string{
		"/v1/rerank":    fmt.Sprintf(`{"query":"%s","documents":[%s]}`, long, all),
		"/v1/decisions": fmt.Sprintf(`{"prompt":"%s","choices":[%s]}`, long, all),
	}
}

// The tokens of such requests are counted against the memory for answers, and released.
func TestRepeatedTokensAreReserved(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	budget := remember(s, 384<<10)
	for path, body := range repeating(400, 300) {
		if status, b, _ := s.Do("POST", path, body); status != 429 || !strings.Contains(string(b), "the tokens take") {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	for path, body := range repeating(400, 10) {
		if status, b, _ := s.Do("POST", path, body); status != 200 {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	fake.Eventually(t, "released", func() bool { return budget.Used() == 0 })
}

// A text that is too long is refused before others are evaluated, and nothing is evaluated for
// a client that is gone.
func TestRepeatedTokensStopEarly(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	s.Refused("/v1/rerank", `{"query":"a","documents":["b","`+strings.Repeat("x", 600)+`"]}`, 400, "")
	s.Refused("/v1/decisions", `{"prompt":"a","choices":["b","`+strings.Repeat("x", 600)+`"]}`, 400, "")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	bodies := repeating(10, 3)
	bodies["/v1/embeddings"], bodies["/api/embed"] = `{"input":["a","b"]}`, `{"input":["a","b"]}`
	bodies["/v1/systemone"] = `{"state":"a","questions":{"q":{"type":"noul","instructions":"b"}}}`
	for path, body := range bodies {
		r := httptest.NewRequestWithContext(gone, "POST", path, strings.NewReader(body))
		s.Server.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := len(s.Requests); n != 0 {
		t.Errorf("%d texts were evaluated", n)
	}
	m := s.Model()
	for _, long := range []ask.Prompt{{{Text: strings.Repeat("x", 600)}}, {{Ids: make([]int32, m.Ctx+1)}}} {
		held := (&answer.Request{Model: m}).TokenStore()
		if _, err := (answer.Inputs{{{Text: "b"}}, {{Text: "c"}}, long}).Encode(t.Context(), m, "input", held); err == nil ||
			!strings.HasPrefix(err.Error(), "element 2 has") || held.Len() != 0 {
			t.Errorf("%v, after %d tokens", err, held.Len())
		}
	}
	full := answer.Inputs{{{Ids: make([]int32, m.Ctx)}}}
	if _, err := full.Encode(t.Context(), m, "input", (&answer.Request{Model: m}).TokenStore()); err != nil {
		t.Errorf("a text as long as the context: %v", err)
	}
	m.Ctx = answer.MaxReadTokens / 4
	held := (&answer.Request{Model: m}).TokenStore()
	for i := range 5 {
		if err := held.Add(make([]int32, m.Ctx)); (err != nil) != (i == 4) {
			t.Errorf("list %d: %v", i, err)
		}
	}
	if err := held.Add(make([]int32, m.Ctx+1)); fmt.Sprintf("%T", err) != fmt.Sprintf("%T", &engine.TooLongError{}) {
		t.Errorf("longer than the context: %v", err)
	}
}

// Numbers of a model that are none are an error of the server with its cause, not an answer.
func TestOverflowIsAnError(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Overflows = true })
	for path, body := range map[string]string{
		"/v1/embeddings": `{"input":["Hello","He"]}`, "/embedding": `{"content":"Hello","pooling":"none"}`,
		"/api/embed":      `{"model":"","input":"Hello"}`,
		"/api/embeddings": `{"model":"","prompt":"Hello"}`, "/v1/decisions": `{"prompt":"Hello","choices":["He","ll"]}`,
		"/v1/rerank":      `{"query":"Hello","documents":["He"]}`,
		"/v1/completions": `{"prompt":"Hello","max_tokens":0,"logprobs":1,"echo":true}`,
	} {
		if status, b, _ := s.Do("POST", path, body); status != 500 || !strings.Contains(string(b), "overflow") ||
			strings.Contains(string(b), "NaN") {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
}

// The same of a real model whose numbers overflow: no log-probabilities of a prompt are made up, and no answer begins.
func TestPromptThatOverflows(t *testing.T) {
	t.Parallel()
	says := scripted.Model{Template: "{{ messages[-1].content }}", Scripts: []scripted.Script{{Text: "ab"}}}
	raw, err := says.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	norm, ok := f.Tensor("output_norm.weight")
	if !ok || norm.Type != gguf.F32 {
		t.Fatal("no norm of floats")
	}
	for i := 0; i < len(norm.Data); i += 4 {
		binary.LittleEndian.PutUint32(norm.Data[i:], math.Float32bits(3e38))
	}
	s := fake.File(t, raw)
	for _, body := range []string{
		`"max_tokens":0,"logprobs":1,"echo":true`, `"max_tokens":3,"logprobs":1,"echo":true`,
		`"max_tokens":3,"logprobs":1,"echo":true,"stream":true`,
		`"max_tokens":1,"prompt_logprobs":0`,
	} {
		if status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":"abab",`+body+`}`); status != 500 ||
			!strings.Contains(string(b), "overflow") {
			t.Errorf("%s: %d %s", body, status, b)
		}
	}
	if status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":"abab","max_tokens":0,"echo":true}`); status != 200 {
		t.Errorf("an echo alone: %d %s", status, b)
	}
}
